"""`archqa compare`, and the scores of runs that have not all cases."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.report.synthetic_runs import (
    cases_with_specialties,
    create_fhir_run,
    create_run,
)
from tests.safety.storage_tools import archqa

METRIC = ("--metric", "strict_micro_f1")


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    """A good and a worse run of the same 12 cases."""
    cases = cases_with_specialties(12)
    good = create_run(tmp_path, cases, seed=1, name="good")
    return good, create_run(tmp_path, cases, seed=2, name="worse", threshold=0.2)


def compare(*arguments: object) -> dict[str, Any]:
    result = archqa("compare", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    tests: dict[str, Any] = json.loads(result.stdout)
    return tests


def keep_cases(run: Path, count: int, status: str) -> None:
    """Make it a run that has reached only its first cases."""
    lines = (run / "cases.jsonl").read_text().splitlines(keepends=True)
    (run / "cases.jsonl").write_text("".join(lines[:count]))
    manifest = json.loads((run / "run.json").read_text())
    manifest["status"] = status
    (run / "run.json").write_text(json.dumps(manifest))


def test_runs_are_tested_by_ten_thousand_random_swaps(runs: tuple[Path, Path]) -> None:
    test = compare(*runs, *METRIC)["strict_micro_f1"]
    assert test["method"] == "approximate-randomisation"
    assert test["resamples"] == 10_000
    assert test["n"] == 12
    assert test["low"] <= test["difference"] <= test["high"]
    assert 1 / 10_001 <= test["p_value"] <= 1
    # A share of the swaps, with the observed one counted among them.
    extreme = test["p_value"] * 10_001 - 1
    assert extreme == pytest.approx(round(extreme))


def test_resamples_and_seed_are_the_callers(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    equal = create_run(tmp_path, cases_with_specialties(12), seed=3, name="equal")
    one = compare(runs[0], equal, *METRIC, "--resamples", 500, "--seed", 1)[
        "strict_micro_f1"
    ]
    other = compare(runs[0], equal, *METRIC, "--resamples", 500, "--seed", 2)[
        "strict_micro_f1"
    ]
    assert (one["resamples"], one["seed"]) == (500, 1)
    assert (one["low"], one["high"]) == (other["low"], other["high"])
    assert one["p_value"] != other["p_value"]


def test_the_table_says_how_p_was_computed_and_shows_no_zero(
    runs: tuple[Path, Path],
) -> None:
    result = archqa("compare", *runs, *METRIC, "--metric", "strict_micro_precision")
    assert result.returncode == 0, result.stderr
    assert "0.000" not in result.stdout
    assert "< 0.001" in result.stdout
    for words in (
        "p (Holm)",
        "the 2 scores",
        "10,000 resamples",
        "seed 12345",
        "power of .8",
    ):
        assert words in result.stdout


def test_runs_of_different_cases_are_refused_with_ten_ids_at_most(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    other = create_run(tmp_path / "more", cases_with_specialties(30))
    result = archqa("compare", runs[0], other)
    assert result.returncode == 2
    assert "not of the same cases (12 and 30 cases)" in result.stderr
    assert "and 8 more" in result.stderr


def test_runs_of_different_tasks_are_refused(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "fhir").mkdir()
    other = create_fhir_run(tmp_path / "fhir", "fhir-agentbench", [], [])
    result = archqa("compare", runs[0], other)
    assert result.returncode == 2
    assert "is a run of archehr-2025" in result.stderr
    assert "Compare two runs of the same task" in result.stderr


@pytest.mark.parametrize("status", ["running", "stopped"])
def test_a_run_in_progress_is_scored_over_the_cases_that_have_ended(
    status: str, runs: tuple[Path, Path]
) -> None:
    keep_cases(runs[0], 5, status)
    table = archqa("score", runs[0], *METRIC)
    assert table.returncode == 0, table.stderr
    assert "5 of 12 cases" in table.stdout
    assert "floor" not in table.stderr
    report = json.loads(archqa("score", runs[0], *METRIC, "--json").stdout)
    assert (report["cases"], report["cases_in_key"]) == (5, 12)


def test_all_cases_counts_the_rest_as_unanswered(runs: tuple[Path, Path]) -> None:
    keep_cases(runs[0], 1, "running")
    own = json.loads(archqa("score", runs[0], *METRIC, "--json").stdout)
    result = archqa("score", runs[0], *METRIC, "--all-cases", "--json")
    report = json.loads(result.stdout)
    assert (report["cases"], report["cases_in_key"]) == (12, 12)
    assert report["scores"]["strict_micro_f1"] < own["scores"]["strict_micro_f1"]
    assert "11 of 12 cases have no answer" in result.stderr
    assert "and 1 more." in result.stderr


def test_a_run_of_which_no_case_has_ended_has_no_score(runs: tuple[Path, Path]) -> None:
    keep_cases(runs[0], 0, "running")
    result = archqa("score", runs[0], *METRIC)
    assert result.returncode == 2
    assert "--all-cases" in result.stderr


@pytest.mark.parametrize(
    ("choice", "count"),
    [(("--limit", "2"), 2), (("--case", "3"), 1), (("--shard", "1/3"), 1)],
)
def test_a_run_of_some_cases_is_scored_over_those(
    choice: tuple[str, str], count: int, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert archqa("predict", "mini", *choice, "--out", run, "--quiet").returncode == 0
    report = json.loads(archqa("score", run, *METRIC, "--json").stdout)
    assert (report["cases"], report["cases_in_key"]) == (count, 3)
    assert f"{count} of 3 cases" in archqa("score", run, *METRIC).stdout


def test_case_ids_narrow_a_partial_run_further(runs: tuple[Path, Path]) -> None:
    keep_cases(runs[0], 5, "running")
    first = json.loads((runs[0] / "cases.jsonl").read_text().splitlines()[0])["id"]
    report = json.loads(
        archqa("score", runs[0], *METRIC, "--case-ids", first, "--json").stdout
    )
    assert (report["cases"], report["cases_in_key"]) == (1, 1)


def test_a_run_in_progress_whose_task_writes_its_submission_last_is_scored(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    arguments = (
        "predict",
        "mini",
        "--task",
        "archehr-2026-st2",
        "--out",
        run,
        "--quiet",
    )
    assert archqa(*arguments).returncode == 0
    keep_cases(run, 2, "running")
    (run / "submission.json").unlink()
    report = json.loads(archqa("score", run, *METRIC, "--json").stdout)
    assert (report["cases"], report["cases_in_key"]) == (2, 3)
