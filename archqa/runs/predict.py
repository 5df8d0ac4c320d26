"""The main job: cases in, a run folder out; new, or going on where a run stopped."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from archqa.benchmarks import CaseFile
from archqa.llm.base import Model
from archqa.runs.folder import RunFolder
from archqa.runs.loops import run_to_end
from archqa.runs.minds import Minds
from archqa.runs.opening import open_folder
from archqa.runs.plan import Plan, plan_run
from archqa.runs.record import CaseStatus, RunManifest, RunStatus
from archqa.runs.run import Run
from archqa.runs.runner import Job, OnCase, run_cases
from archqa.runs.selection import Selection
from archqa.settings import Settings, load_settings

OnStart = Callable[[RunManifest, int], None]


def _unheard(*_: object) -> None:
    """Nobody follows the run."""


def predict(
    cases: str | Path | CaseFile,
    *,
    task: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    selection: Selection | None = None,
    settings: Settings | None = None,
    scripted: Model | None = None,
    on_start: OnStart = _unheard,
    on_case: OnCase = _unheard,
    **typed: Any,
) -> Run:
    """Answer every case of a file and return the run.

    `cases` is a path, `-`, `mini` or what `load_cases` gave; `selection` narrows it. `typed` are settings by name
    (`pipeline="embedded"`, `labels="multiclass"`). `scripted` replaces the server, for tests. Cases that fail are lines
    of the run. Raises `CallerError`, `InputError`, `ModelError` and `BudgetExceeded`; the run folder stays resumable.
    """
    settings = settings or load_settings(typed=typed)
    plan = plan_run(cases, task, selection or Selection(), settings)
    minds = Minds(settings, plan.pipeline, scripted)
    plan = plan._replace(manifest=plan.manifest.model_copy(update={"minds": minds.describe()}))
    folder, manifest = open_folder(plan, Path(out) if out else None, resume=resume)
    return run_to_end(_carry_out(folder, plan._replace(manifest=manifest), minds, on_start, on_case))


async def _carry_out(folder: RunFolder, plan: Plan, minds: Minds, on_start: OnStart, on_case: OnCase) -> Run:
    ended = folder.records()
    tries = {record.id: record.tries for record in ended.values()}
    done = {record.id for record in ended.values() if record.status is not CaseStatus.FAILED}
    waiting = (case for case in plan.cases if case.id not in done)  # Failed cases are tried again; a refusal stands.
    began, before = time.monotonic(), plan.manifest.seconds
    folder.write_manifest(plan.manifest)
    on_start(plan.manifest, len(done))
    status = RunStatus.STOPPED
    try:
        await run_cases(waiting, Job(folder, plan.pipeline, plan.settings, minds, tries, on_case))
        status = RunStatus.FINISHED
    finally:
        seconds = before + time.monotonic() - began
        ending = {"status": status, "ended_at": datetime.now(UTC), "seconds": seconds}
        folder.write_manifest(plan.manifest.model_copy(update=ending))
        await minds.close()
    run = Run(folder)
    run.write_submission()
    return run
