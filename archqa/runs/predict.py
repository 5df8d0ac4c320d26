"""The main job: cases in, a run folder out; new, or going on where a run stopped."""

import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from archqa.agents.agent import ConfirmWrite
from archqa.core.question import Item
from archqa.errors import CallerError
from archqa.fhir import AuditLog
from archqa.llm.model import Model
from archqa.runs.backends import Backends
from archqa.runs.case_selection import Selection
from archqa.runs.event_loop import run_sync
from archqa.runs.folder import RunFolder
from archqa.runs.open_run import open_folder
from archqa.runs.plan import Plan, plan_run
from archqa.runs.ray import driver as cluster
from archqa.runs.ray.cluster import ray_cluster
from archqa.runs.record import CaseStatus, RunManifest, RunStatus
from archqa.runs.run import Run
from archqa.runs.runner import Job, OnCase, run_cases
from archqa.settings import Settings, load_settings
from archqa.tasks import CaseFile

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
    confirm: ConfirmWrite | None = None,
    **typed: Any,
) -> Run:
    """Answer every case of a file and return the run.

    `cases` is a path, `-`, `mini` or what `load_cases` gave; `selection` narrows it. `typed` are settings by name
    (`pipeline="embedded"`, `labels="multiclass"`). `confirm` is asked before anything is written to a record.
    `scripted` replaces the server, for tests. Cases that fail are lines
    of the run. Raises `CallerError`, `InputError`, `ModelError` and `BudgetExceeded`; the run folder stays resumable.
    """
    if settings is not None and typed:
        raise CallerError(
            f"Both settings and {', '.join(typed)} were given.\nPut them into one: load_settings(typed=...)."
        )
    settings = settings or load_settings(typed=typed)
    if scripted is not None and settings.runner == "ray":
        raise CallerError("A scripted model works in this process alone.\nLeave runner='ray' out.")
    plan = plan_run(cases, task, selection or Selection(), settings)
    _check_writes(plan, confirmed=confirm is not None)
    minds = Backends(settings, plan.pipeline, scripted)
    minds.confirm = confirm
    plan = plan._replace(manifest=plan.manifest.model_copy(update={"minds": minds.describe()}))
    with (
        ray_cluster(settings) if settings.runner == "ray" else nullcontext()
    ):  # Before anything is written.
        folder, manifest = open_folder(plan, Path(out) if out else None, resume=resume)
        minds.audit = AuditLog(folder.path / "audit.jsonl")
        return run_sync(
            _carry_out(folder, plan._replace(manifest=manifest), minds, on_start, on_case)
        )


def _check_writes(plan: Plan, *, confirmed: bool) -> None:
    """Raise `CallerError` for writes that nobody could answer for: on a cluster there is no audit log and no person."""
    writes = plan.settings.for_pipeline(plan.pipeline).writes_to_record
    if plan.settings.runner == "ray" and (confirmed or writes):
        raise CallerError(
            "On a cluster nothing is written to a record.\nRun it here, or leave writes=apply away."
        )


def _runner(settings: Settings) -> Callable[[Iterable[Item], Job], Awaitable[None]]:
    """Who takes the cases through the pipeline: this process, or a cluster."""
    return cluster.run_cases if settings.runner == "ray" else run_cases


async def _carry_out(
    folder: RunFolder, plan: Plan, minds: Backends, on_start: OnStart, on_case: OnCase
) -> Run:
    ended = folder.records()
    tries = {record.id: record.tries for record in ended.values()}
    done = {record.id for record in ended.values() if record.status is not CaseStatus.FAILED}
    waiting = (
        case for case in plan.cases if case.id not in done
    )  # Failed cases are tried again; a refusal stands.
    began, before = time.monotonic(), plan.manifest.seconds
    folder.write_manifest(plan.manifest)
    on_start(plan.manifest, len(done))
    status = RunStatus.STOPPED
    try:
        await _runner(plan.settings)(
            waiting, Job(folder, plan.pipeline, plan.settings, minds, tries, on_case)
        )
        status = RunStatus.FINISHED
    finally:
        seconds = before + time.monotonic() - began
        ending = {"status": status, "ended_at": datetime.now(UTC), "seconds": seconds}
        folder.write_manifest(plan.manifest.model_copy(update=ending))
        await minds.close()
    run = Run(folder)
    run.write_submission()
    run.write_task_files()
    return run
