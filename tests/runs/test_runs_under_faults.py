"""Runs with faulty calls, with kills at random moments, and with many cases."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.benchmarks import faults
from tests.benchmarks.faults import KEY, command, environment
from tests.fakes.cases import write_synthetic_cases
from tests.fakes.server import FakeServer


def test_nearly_every_case_is_answered_when_three_calls_in_ten_fail(
    tmp_path: Path,
) -> None:
    assert_nearly_all_answered(faults.run_with_faults(tmp_path, count=20, sentences=10))


@pytest.mark.long
def test_nearly_all_of_200_cases_are_answered_when_three_calls_in_ten_fail(
    tmp_path: Path,
) -> None:
    run = faults.run_with_faults(tmp_path, count=200)
    assert run.calls > 5000
    assert_nearly_all_answered(run)


def assert_nearly_all_answered(run: faults.FaultyRun) -> None:
    assert run.answered >= 0.97 * run.cases
    assert run.unexplained == 0
    assert run.invalid == 0


@pytest.mark.long
def test_a_run_killed_20_times_has_the_same_predictions_and_repeats_only_calls_in_flight(
    tmp_path: Path,
) -> None:
    run = faults.run_with_kills(tmp_path, times=20)
    assert run.identical
    assert run.kills == 20
    assert run.repeated <= faults.JOBS * run.kills
    assert_no_key(tmp_path)


@pytest.mark.long
def test_10000_cases_need_at_most_50_mib_more_than_120(
    tmp_path: Path,
) -> None:
    small_run = faults.peak_memory(tmp_path, 120)
    large_run = faults.peak_memory(tmp_path, 10_000)
    mebibytes = (large_run - small_run) / 2**20
    assert mebibytes <= 50


def assert_no_key(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


def test_a_run_through_a_server_writes_its_key_nowhere(tmp_path: Path) -> None:
    cases = write_synthetic_cases(tmp_path / "cases.jsonl", count=2, sentences=4)
    with FakeServer() as server:
        finished = subprocess.run(
            command(cases, tmp_path / "run", server.base_url, "--verbose"),
            env=environment(tmp_path / "home"),
            capture_output=True,
            text=True,
            check=True,
        )
    assert_no_key(tmp_path)
    assert KEY not in finished.stdout + finished.stderr
    sentence = json.loads(cases.read_text().splitlines()[0])["sentences"][0]["text"]
    assert sentence not in finished.stderr
