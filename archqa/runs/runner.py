"""Takes every case of a run through its pipeline. One bad case becomes a line, never the end of the run."""

import asyncio
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from archqa.core.question import Item
from archqa.core.step import Step
from archqa.core.usage import sum_usage
from archqa.errors import (
    ArchqaError,
    BudgetExceeded,
    CaseFailed,
    ModelError,
    Refused,
    ServerUnavailable,
)
from archqa.llm.batch import ReplyPending
from archqa.runs.backends import Backends
from archqa.runs.folder import RunFolder
from archqa.runs.record import CaseRecord, CaseStatus
from archqa.settings import Settings
from archqa.tasks.pipeline import NoteResult, Pipeline, PipelineResult

OnCase = Callable[[CaseRecord], None]

_PATIENCE = 5
"""Cases in a row that may fail for want of the server before the run stops."""


class Job(NamedTuple):
    """What is the same for all cases of a run."""

    folder: RunFolder
    pipeline: Pipeline
    settings: Settings
    minds: Backends
    tries: dict[str, int]
    on_case: OnCase


async def run_cases(cases: Iterable[Item], job: Job) -> None:
    """Run the cases, several at a time; stops at what no other case can survive (`ModelError`, `BudgetExceeded`)."""
    waiting = iter(cases)
    patience = OutageTracker()
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_cases_at_once(job)):
                group.create_task(_work_off(waiting, job, patience))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    patience.raise_if_all_failed()


class OutageTracker:
    """Counts cases lost to an unreachable server since the last that was not."""

    def __init__(self) -> None:
        self._lost = 0
        self._last: ServerUnavailable | None = None
        self._any_else = False

    def after(self, failure: ArchqaError | None) -> None:
        """Raise when too many in a row were lost."""
        self._last = failure if isinstance(failure, ServerUnavailable) else None
        self._lost = self._lost + 1 if self._last else 0
        self._any_else = self._any_else or self._last is None
        if self._last and self._lost >= _PATIENCE:
            raise self._last

    def raise_if_all_failed(self) -> None:
        """Raise when every case was lost, however few they were."""
        if self._last and not self._any_else:
            raise self._last


async def _work_off(waiting: Iterator[Item], job: Job, patience: OutageTracker) -> None:
    for case in waiting:
        record, failure = await run_case(case, job)
        job.folder.add(record)
        job.on_case(record)
        patience.after(failure)


async def run_case(case: Item, job: Job) -> tuple[CaseRecord, ArchqaError | None]:
    """Take one case through the pipeline; its steps go into its trace as they end. Raises what ends the whole run."""
    began = time.monotonic()
    usages = [step.usage for step in job.folder.steps(case.id)]

    def record(step: Step) -> None:
        usages.append(step.usage)
        job.folder.add_step(case.id, step)

    found, failure = await attempt_case(case, job, record)
    measured = {
        "usage": sum_usage(usages),
        "seconds": time.monotonic() - began,
        "tries": job.tries.get(case.id, 0) + 1,
    }
    return found.model_copy(update=measured), failure


async def attempt_case(
    case: Item, job: Job, record: Callable[[Step], None]
) -> tuple[CaseRecord, ArchqaError | None]:
    """How one case ends, and the foreseen failure if it was one. Raises what ends the whole run, and `ReplyPending`."""
    outcome, failure, error = await _outcome(case, job, record)
    return _record(case.id, outcome, failure, error), failure


async def _outcome(
    case: Item, job: Job, record: Callable[[Step], None]
) -> tuple[PipelineResult | None, ArchqaError | None, str]:
    """The outcome, or why there is none. Raises what ends the whole run."""
    try:
        settings = job.settings.for_pipeline(job.pipeline)
        outcome = await job.pipeline.run(case, job.minds.desk(record, case), settings)
        return outcome, None, ""
    except (CaseFailed, ServerUnavailable) as failure:
        return None, failure, f"{type(failure).__name__}: {failure}"
    except (ModelError, BudgetExceeded, ReplyPending):
        raise
    except Exception as unforeseen:  # One case must not end the run; its text may quote the record, so only the place is kept.
        place = traceback.extract_tb(unforeseen.__traceback__)[-1]
        return (
            None,
            None,
            f"Unforeseen {type(unforeseen).__name__} at {Path(place.filename).name}:{place.lineno}",
        )


def _record(
    case_id: str, outcome: PipelineResult | None, failure: ArchqaError | None, error: str
) -> CaseRecord:
    if outcome is None:
        status = CaseStatus.UNANSWERABLE if isinstance(failure, Refused) else CaseStatus.FAILED
        result = failure.result if isinstance(failure, CaseFailed) else None
        return CaseRecord(id=case_id, status=status, error=error, result=result)
    answered = CaseRecord(
        id=case_id, status=CaseStatus.ANSWERED, result=outcome.result, remarks=outcome.remarks
    )
    return (
        answered.model_copy(update=_of_note(outcome))
        if isinstance(outcome, NoteResult)
        else answered
    )


def _of_note(outcome: NoteResult) -> dict[str, Any]:
    return {
        "answer": outcome.answer,
        "evidence": outcome.essential,
        "judgements": outcome.judgements,
        "experts": outcome.experts,
    }


def _cases_at_once(job: Job) -> int:
    """Enough to keep every place at the server busy; the embedded engine has only the processor."""
    return (
        job.settings.limits.jobs
        if job.minds.uses_models
        else min(job.settings.limits.jobs, os.cpu_count() or 1)
    )
