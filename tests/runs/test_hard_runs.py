"""Runs through what servers and machines do: faults at a third of the calls, kills at any moment, many cases."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.benchmarks import hardship
from tests.benchmarks.hardship import KEY, command, environment
from tests.fakes.cases import write_synthetic_cases
from tests.fakes.server import FakeServer


def test_three_calls_in_ten_fail_and_nearly_every_case_is_answered(tmp_path: Path) -> None:
    check(hardship.weather(tmp_path, count=20, sentences=10))


@pytest.mark.long
def test_two_hundred_cases_with_three_calls_in_ten_failing(tmp_path: Path) -> None:
    seen = hardship.weather(tmp_path, count=200)
    assert seen.calls > 5000
    check(seen)


def check(seen: hardship.Weathered) -> None:
    assert seen.answered >= 0.97 * seen.cases
    assert seen.unexplained == 0
    assert seen.invalid == 0


@pytest.mark.long
def test_killed_twenty_times_a_run_ends_with_the_same_predictions_and_repeats_only_what_was_in_flight(
    tmp_path: Path,
) -> None:
    seen = hardship.kill(tmp_path, times=20)
    assert seen.identical
    assert seen.kills == 20
    assert seen.repeated <= hardship.JOBS * seen.kills
    check_no_secret(tmp_path)


@pytest.mark.long
def test_ten_thousand_cases_take_little_more_memory_than_a_hundred_and_twenty(
    tmp_path: Path,
) -> None:
    few, many = (hardship.peak_memory(tmp_path, count) for count in (120, 10_000))
    assert many - few <= 50 * 2**20, (
        f"{few / 2**20:.0f} MiB for 120 cases, {many / 2**20:.0f} MiB for 10,000"
    )


def check_no_secret(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


def test_a_run_through_a_server_writes_its_key_nowhere(tmp_path: Path) -> None:
    cases = write_synthetic_cases(tmp_path / "cases.jsonl", count=2, sentences=4)
    with FakeServer() as server:
        done = subprocess.run(
            command(cases, tmp_path / "run", server.base_url, "--verbose"),
            env=environment(tmp_path / "home"),
            capture_output=True,
            text=True,
            check=True,
        )
    check_no_secret(tmp_path)
    assert KEY not in done.stdout + done.stderr
    sentence = json.loads(cases.read_text().splitlines()[0])["sentences"][0]["text"]
    assert sentence not in done.stderr
