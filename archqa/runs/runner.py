"""Runs the pipeline on every case of a run.

A case that fails is recorded; it does not end the run.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator
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
    StorageError,
    error_position,
)
from archqa.llm.batch import ReplyPending
from archqa.runs.backends import Backends
from archqa.runs.folder import RunFolder
from archqa.runs.record import CaseRecord, CaseStatus
from archqa.settings import Settings
from archqa.tasks.pipeline import NoteResult, Pipeline, PipelineResult

OnCase = Callable[[CaseRecord], None]

_MAX_LOST_IN_A_ROW = 5
"""Cases in a row that may be lost to an unreachable server before the run stops."""


class Job(NamedTuple):
    """What all cases of a run share. `tries` counts the earlier tries of a case, by id."""

    folder: RunFolder
    pipeline: Pipeline
    settings: Settings
    backends: Backends
    tries: dict[str, int]
    on_case: OnCase


async def run_cases(cases: Iterable[Item], job: Job) -> None:
    """Run the cases, several at once.

    Raises what no further case can survive: `ModelError`, `BudgetExceeded`, `StorageError`.
    """
    # As many cases as requests in flight; without a model, no more than there are cores.
    concurrent = job.settings.limits.jobs
    if not job.backends.uses_models:
        concurrent = min(concurrent, os.cpu_count() or 1)
    queue = iter(cases)
    outages = OutageTracker()
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrent):
                group.create_task(_run_queue(queue, job, outages))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    outages.raise_if_all_failed()


class OutageTracker:
    """Counts the cases lost in a row to an unreachable server."""

    def __init__(self) -> None:
        self._lost_in_a_row = 0
        self._last_outage: ServerUnavailable | None = None
        self._any_case_survived = False

    def after(self, failure: ArchqaError | None) -> None:
        """Count a case. Raises its `ServerUnavailable` when too many in a row were lost."""
        if not isinstance(failure, ServerUnavailable):
            self._lost_in_a_row = 0
            self._last_outage = None
            self._any_case_survived = True
            return
        self._lost_in_a_row += 1
        self._last_outage = failure
        if self._lost_in_a_row >= _MAX_LOST_IN_A_ROW:
            raise failure

    def raise_if_all_failed(self) -> None:
        """Raise when every case was lost, however few they were."""
        if self._last_outage and not self._any_case_survived:
            raise self._last_outage


async def _run_queue(queue: Iterator[Item], job: Job, outages: OutageTracker) -> None:
    for case in queue:
        record, failure = await run_case(case, job)
        job.folder.add(record)
        job.on_case(record)
        outages.after(failure)


async def run_case(case: Item, job: Job) -> tuple[CaseRecord, ArchqaError | None]:
    """Run the pipeline on a case and trace its steps. Raises what ends the whole run.

    Usage and tries include those of earlier tries of the case.
    """
    started = time.monotonic()
    usages = [step.usage for step in job.folder.steps(case.id)]

    def record_step(step: Step) -> None:
        usages.append(step.usage)
        job.folder.add_step(case.id, step)

    record, failure = await attempt_case(case, job, record_step)
    measured = {
        "usage": sum_usage(usages),
        "seconds": time.monotonic() - started,
        "tries": job.tries.get(case.id, 0) + 1,
    }
    return record.model_copy(update=measured), failure


async def attempt_case(
    case: Item, job: Job, record_step: Callable[[Step], None]
) -> tuple[CaseRecord, ArchqaError | None]:
    """The record of a case, and its failure if it was an expected one.

    Raises what ends the whole run (`ModelError`, `BudgetExceeded`, `StorageError`), and
    `ReplyPending`.
    """
    settings = job.settings.for_pipeline(job.pipeline)
    try:
        context = job.backends.context(record_step, case)
        result = await job.pipeline.run(case, context, settings)
    except (CaseFailed, ServerUnavailable) as failure:
        return failed_record(case.id, failure), failure
    except (ModelError, BudgetExceeded, ReplyPending, StorageError):
        raise
    except Exception as error:  # A bug must not end the run for all other cases.
        # Its message may quote the record and is left out.
        unforeseen = f"Unforeseen {type(error).__name__} at {error_position(error)}"
        return CaseRecord(id=case.id, status=CaseStatus.FAILED, error=unforeseen), None
    return answered_record(case.id, result), None


def failed_record(case_id: str, failure: ArchqaError) -> CaseRecord:
    """The record of a case without an answer; a refusal makes it unanswerable."""
    kind = type(failure).__name__
    record = CaseRecord(
        id=case_id, status=CaseStatus.FAILED, error=f"{kind}: {failure}"
    )
    if not isinstance(failure, CaseFailed):
        return record
    changes: dict[str, Any] = {"result": failure.result}
    if isinstance(failure, Refused):
        changes["status"] = CaseStatus.UNANSWERABLE
    if failure.details:
        changes["error"] = f"{kind}: {failure.details}"
        summary = str(failure).partition("\n")[0].rstrip(".")
        changes["error_summary"] = f"{kind}: {summary}"
    return record.model_copy(update=changes)


def answered_record(case_id: str, result: PipelineResult) -> CaseRecord:
    """The record of a case that the pipeline has answered."""
    record = CaseRecord(
        id=case_id,
        status=CaseStatus.ANSWERED,
        result=result.result,
        remarks=result.remarks,
    )
    if not isinstance(result, NoteResult):
        return record
    of_note = {
        "answer": result.answer,
        "evidence": result.essential,
        "judgements": result.judgements,
        "experts": result.experts,
    }
    return record.model_copy(update=of_note)
