"""The example notebooks run from a kernel as people run them, and are kept without outputs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

FOLDER = ROOT / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def code_cells(path: Path) -> list[dict[str, Any]]:
    content = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in content["cells"] if cell["cell_type"] == "code"]


def test_there_are_two_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["ask", "benchmark"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    for cell in code_cells(path):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The text and HTML that each notebook shows, by its name. A kernel needs sockets of its own."""
    nbclient = pytest.importorskip(
        "nbclient", reason="needs nbclient and ipykernel (make .dev)"
    )
    nbformat = pytest.importorskip(
        "nbformat", reason="needs nbclient and ipykernel (make .dev)"
    )
    pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel (make .dev)")
    shown = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        for path in NOTEBOOKS:
            notebook = nbformat.read(path, as_version=4)
            nbformat.validate(notebook)
            client = nbclient.NotebookClient(
                notebook, timeout=300, resources={"metadata": {"path": str(FOLDER)}}
            )
            client.execute()
            shown[path.stem] = "\n".join(_texts(notebook))
    return shown


def _texts(notebook: Any) -> list[str]:
    texts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            texts += [str(text) for text in output.get("data", {}).values()]
            texts.append(str(output.get("text", "")))
    return texts


def test_asking_a_note_and_a_record_answers_what_they_say(
    outputs: dict[str, str],
) -> None:
    shown = outputs["ask"]
    assert "Apixaban was stopped because of bleeding from a gastric ulcer." in shown
    assert "['answered', 'not_found', 'declined']" in shown
    assert "3 of 3 questions asked" in shown
    assert "Creatinine 1.0 mg/dL on 2026-05-05" in shown
    assert "Metoprolol 25 mg tablet" in shown


def test_a_benchmark_is_run_scored_compared_and_looked_at(
    outputs: dict[str, str],
) -> None:
    shown = outputs["benchmark"]
    for part in (
        "3 of 3 cases",
        "strict_micro_f1",
        "Scored against the key file",
        "iframe",
    ):
        assert part in shown, part
    assert "visit-7" in shown


def test_nothing_that_is_shown_has_a_script(outputs: dict[str, str]) -> None:
    for shown in outputs.values():
        assert "<script" not in shown


def test_the_code_of_the_how_to_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "how-to" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 5
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "python.md", "exec"), names)
    assert names["answer"].status == "answered"
    assert names["answers"]["error"].tolist() == [""]
    assert names["scores"]["strict_micro_f1"] > 50
