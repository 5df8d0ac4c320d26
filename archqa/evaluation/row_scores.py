"""Scores rows of a submission that are in memory, by the functions that `score` calls."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from archqa.tasks import registry
from archqa.tasks.scoring import ScoringInputs
from archqa.tasks.scoring.row_scorer import RowScorer
from archqa.tasks.task import CompletedCase, EndedRun

__all__ = ["RowScorer", "row_scorer", "submitted_rows"]


def row_scorer(
    task: str, cases: Path, key: Path | None = None, record: str | None = None
) -> RowScorer:
    """What scores rows of a task.

    Raises `CallerError` for a task whose rows cannot be scored so and for a file that was not
    named, `InputError` for malformed files.
    """
    inputs = ScoringInputs(key=key, data=cases, record=record)
    return registry.find(task).scoring().row_scorer(inputs)


def submitted_rows(task: str, completed: CompletedCase, case_ids: Sequence[str]) -> list[Any]:
    """The rows that a run of these cases submits for one of them."""
    benchmark = registry.find(task)
    if benchmark.scoring().reads_submission_file:
        rows: list[Any] = benchmark.submission([completed])
        return rows
    run = EndedRun(Path(), "", tuple(case_ids), [completed])
    rows, _ = benchmark.scoring().rows_of_run(run)
    return rows
