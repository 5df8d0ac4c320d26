"""The organisers' outputs in ../shared/golden, and what the heavy metrics need to run offline."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from scoring import Scores
from scoring.files import load_references_2025, read_json
from scoring.tasks import archehr2025

HERE = Path(__file__).resolve().parent
ScoreGolden = Callable[..., tuple[Scores, Any]]


@pytest.fixture
def golden(shared: Path) -> Path:
    """The folder of official outputs."""
    return shared / "golden"


@pytest.fixture
def score_golden(golden: Path) -> ScoreGolden:
    """Score a submission of the goldens as one official output says it was; our scores and that output."""

    def score(output: str, **settings: Any) -> tuple[Scores, Any]:
        name, _, order = (
            output.removesuffix(".json").removeprefix("official_").rpartition("_")
        )
        name, _, changed_key = name.partition("_")
        key = (
            f"archehr-qa_key_{changed_key}.json"
            if changed_key
            else "archehr-qa_key.json"
        )
        references = load_references_2025(golden / "archehr-qa.xml", golden / key)
        submission = read_json(golden / f"submission_{name}.json")
        reference_order = {"noteorder": "note", "hashseed0": "hash:0"}[order]
        return archehr2025.score(
            submission, references, reference_order=reference_order, **settings
        ), read_json(golden / output)

    return score


@pytest.fixture(scope="session")
def medcon_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A QuickUMLS index of the goldens' tiny dictionary, built lower-case (-L) as theirs was."""
    rrf = HERE.parent.parent.parent / "shared" / "golden" / "quickumls_demo_rrf"
    if not rrf.is_dir():
        pytest.skip("../shared is not here")
    install = pytest.importorskip(
        "quickumls.install", reason="QuickUMLS is not installed (extra medcon)"
    )
    index = tmp_path_factory.mktemp("quickumls")
    # The installer would download its spaCy model first; building the index does not need it.
    with (
        mock.patch.object(install, "install_spacy"),
        mock.patch.object(sys, "argv", ["", "-L", str(rrf), str(index)]),
    ):
        install.main()
    return index


@pytest.fixture
def stop_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NLTK data that hold the English stop words and nothing else."""
    nltk = pytest.importorskip("nltk", reason="NLTK is not installed (extra medcon)")
    folder = tmp_path / "corpora" / "stopwords"
    folder.mkdir(parents=True)
    (folder / "english").write_text(
        "\n".join((HERE / "english_stop_words.txt").read_text().split())
    )
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
