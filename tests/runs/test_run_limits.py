"""The constants that end a run, a worker or a request: each has a test that fails when it changes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from archqa.core.id_lists import list_ids
from archqa.errors import ServerUnavailable
from archqa.runs.batch import BatchRound, BatchRun
from archqa.runs.folder import RunFolder
from archqa.runs.plan import Selection, plan_run
from archqa.runs.predict import predict
from archqa.runs.ray.driver import WorkerLost, _WorkerPool
from archqa.runs.runner import OutageTracker
from archqa.settings import load_settings

OUTAGE = ServerUnavailable("The server cannot be reached.")


def test_a_run_stops_at_the_fifth_case_in_a_row_that_an_outage_costs() -> None:
    outages = OutageTracker()
    for _ in range(4):
        outages.after(OUTAGE)
    with pytest.raises(ServerUnavailable):
        outages.after(OUTAGE)


def test_a_case_that_survives_starts_the_count_anew() -> None:
    outages = OutageTracker()
    for failure in (
        OUTAGE,
        OUTAGE,
        OUTAGE,
        OUTAGE,
        None,
        OUTAGE,
        OUTAGE,
        OUTAGE,
        OUTAGE,
    ):
        outages.after(failure)
    outages.raise_if_all_failed()


class Unreachable:
    """A model whose server cannot be reached; counts the requests."""

    def __init__(self) -> None:
        self.requests = 0

    async def ask(self, _: Any) -> Any:
        self.requests += 1
        raise OUTAGE


def test_a_run_without_a_server_ends_after_five_cases_and_can_be_resumed(
    tmp_path: Path,
) -> None:
    model = Unreachable()
    settings = load_settings(
        typed={
            "model": "m",
            "pipeline": "dmis",
            "jobs": 1,
            "tries": 1,
            "cache": False,
            "context": False,
        }
    )
    cases = Path(__file__).resolve().parents[2] / "data" / "dev.json"
    with pytest.raises(ServerUnavailable):
        predict(cases, out=tmp_path / "run", settings=settings, scripted=model)  # type: ignore[arg-type]
    assert len(RunFolder.open(tmp_path / "run").records()) == 5


def test_the_fifth_worker_in_a_row_that_does_not_start_ends_the_run() -> None:
    pool = SimpleNamespace(_failed_starts=0)
    for _ in range(4):
        _WorkerPool._count_failed_start(pool, WorkerLost())  # type: ignore[arg-type]
    with pytest.raises(ServerUnavailable, match="5 workers in a row"):
        _WorkerPool._count_failed_start(pool, WorkerLost())  # type: ignore[arg-type]


def test_a_batched_request_fails_for_good_after_three_rounds(tmp_path: Path) -> None:
    settings = load_settings(typed={"model": "m", "pipeline": "dmis"})
    run = BatchRun.create(
        plan_run("mini", None, Selection(), settings), tmp_path / "run"
    )
    for number in (1, 2):
        run.replace(BatchRound(number=number, digests=("request",), status="fetched"))
    assert run._failed_too_often() == frozenset()
    run.replace(BatchRound(number=3, digests=("request",), status="fetched"))
    assert run._failed_too_often() == {"request"}


def test_a_message_names_ten_cases_and_counts_the_rest() -> None:
    ids = [str(number) for number in range(1, 13)]
    assert list_ids(ids[:10]) == "1, 2, 3, 4, 5, 6, 7, 8, 9, 10"
    assert list_ids(ids) == "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more"
