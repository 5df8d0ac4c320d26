"""What `tests.benchmarks.own_model` counts of a run, on a fake server whose faults are known."""

from pathlib import Path

import pytest

from tests.benchmarks.own_model import Outcome, outcome_of, run_pipeline
from tests.fakes.server import FakeServer

CASES = Path(__file__).with_name("two_cases.json")


def outcome(folder: Path, *faults: str) -> Outcome:
    with FakeServer(*faults) as server:
        run = run_pipeline("dmis", server.base_url, "fake", folder, CASES, limit=1)
    return outcome_of(run)


def test_a_server_without_faults_loses_nothing(tmp_path: Path) -> None:
    counted = outcome(tmp_path)
    assert (counted.answered, counted.refused, counted.failed) == (1, 0, 0)
    assert counted.replies == counted.passed == counted.calls > 4
    assert (counted.repaired, counted.repeated, counted.lost) == (0, 0, 0)
    assert counted.longest_prompt > 100


def test_a_reply_that_is_put_right_is_asked_for_again_and_not_lost(
    tmp_path: Path,
) -> None:
    before = outcome(tmp_path / "before")
    counted = outcome(tmp_path / "after", "wrong-schema,first=1,only=decision")
    assert counted.replies == before.replies + 1
    assert (counted.repeated, counted.lost, counted.answered) == (1, 0, 1)
    assert counted.passed == before.passed


@pytest.mark.parametrize(("fault", "answered"), [("wrong-schema", 1), ("refusal", 0)])
def test_a_call_without_a_usable_reply_is_lost(
    fault: str, answered: int, tmp_path: Path
) -> None:
    """The engine decides from the labels where the decision is lost; a refusal stands."""
    counted = outcome(tmp_path, f"{fault},always,only=decision")
    assert counted.lost == 1
    assert (counted.answered, counted.refused, counted.failed) == (
        answered,
        1 - answered,
        0,
    )
    assert f"1 of {counted.calls} calls lost" in str(counted)
