"""Runs a pipeline on a case file: cases in, a run folder out; new, or resumed."""

import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from archqa.agents.agent import Backend, ConfirmWrite
from archqa.core.id_lists import list_ids
from archqa.core.question import Item
from archqa.errors import CallerError, without_suppressed_causes
from archqa.fhir import AuditLog
from archqa.llm.limits import BudgetProtocol
from archqa.llm.model import Model
from archqa.runs.backends import (
    Backends,
    CustomBackend,
    limits_of_one_process,
    log_remark,
)
from archqa.runs.destinations import Announce
from archqa.runs.event_loop import run_sync
from archqa.runs.folder import RunFolder
from archqa.runs.notebook_progress import NotebookProgress
from archqa.runs.open_run import open_folder
from archqa.runs.plan import Plan, Selection, plan_run
from archqa.runs.record import CaseRecord, CaseStatus, RunManifest, RunStatus
from archqa.runs.run import Run
from archqa.runs.runner import Job, OnCase, run_cases
from archqa.safety.arguments import as_optional_path
from archqa.settings import Settings, load_settings
from archqa.tasks import CaseFile
from archqa.tasks.case_tables import CaseTable

OnStart = Callable[[RunManifest, int], None]
"""Called with the manifest and the number of cases that ended in an earlier try."""


class RunInterrupted(KeyboardInterrupt):
    """Somebody pressed Ctrl-C; `folder` holds the cases that ended, and the run can be resumed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"The run in {folder} was interrupted; resume it.")
        self.folder = folder


def _ignore(*_: object) -> None:
    """The callback of a run that nobody follows."""


@without_suppressed_causes
def predict(
    cases: str | Path | CaseFile | CaseTable,
    *,
    task: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    selection: Selection | None = None,
    settings: Settings | None = None,
    backend: Backend | str | None = None,
    scripted: Model | None = None,
    on_start: OnStart = _ignore,
    on_case: OnCase = _ignore,
    confirm: ConfirmWrite | None = None,
    announce: Announce | None = None,
    budget: BudgetProtocol | None = None,
    **typed: Any,
) -> Run:
    """Answer every case of a file and return the run.

    `cases` is a path, `-` (standard input), `mini`, what `load_cases` returned, a data frame with
    `question` and `note` (or a benchmark's columns), or a list of cases or dicts; `selection`
    narrows it. `typed` are settings by short or full name (`pipeline="embedded"`,
    `labels="multiclass"`), instead of `settings`. `confirm` is called before anything is written to
    a record, `announce` with the hosts that get record text before the first request; by default
    a log warning names them. `scripted` replaces the model server, for tests. `budget` is a spending
    limit that this run shares with others, instead of `max_cost`.

    Cases that fail are recorded in the run. Raises `CallerError`, `RunLocked` while another process
    works on the run, `InputError`, `StorageError`, `ModelError` and `BudgetExceeded`; the run can be
    resumed after the last three, and after Ctrl-C, which raises `RunInterrupted`.
    """
    # Neither a selection nor settings of another type are quoted: they may be a note.
    if not isinstance(selection, Selection | None):
        kind = type(selection).__name__
        raise CallerError(f"selection is of type {kind}; it should be a Selection.")
    if not isinstance(settings, Settings | None):
        kind = type(settings).__name__
        raise CallerError(
            f"settings is of type {kind}; load_settings(typed=...) makes them."
        )
    path = as_optional_path(out, "out")
    if settings is None:
        settings = load_settings(typed=typed)
    elif typed:
        raise CallerError(
            f"Both settings and {list_ids(typed)} were given.\n"
            "Put them into one: load_settings(typed=...)."
        )
    custom = None
    if isinstance(backend, str):
        load_settings(
            typed={"backend": backend}
        )  # Raises for a name that does not exist.
        settings = settings.replace(backend=backend)
    elif backend is not None:
        custom = CustomBackend.of_object(backend)
        settings = settings.replace(backend=custom.name)
    plan = plan_run(cases, task, selection or Selection(), settings)
    if scripted is None:
        plan = plan.with_served_model()
    return run_plan(
        plan,
        path,
        resume=resume,
        custom=custom,
        scripted=scripted,
        on_start=on_start,
        on_case=on_case,
        confirm=confirm,
        announce=announce,
        budget=budget,
    )


def run_plan(
    plan: Plan,
    out: Path | None,
    *,
    resume: bool,
    custom: CustomBackend | None = None,
    scripted: Model | None = None,
    on_start: OnStart,
    on_case: OnCase,
    confirm: ConfirmWrite | None,
    announce: Announce | None,
    budget: BudgetProtocol | None = None,
) -> Run:
    """Run the cases of a plan and return the run. Arguments and errors are those of `predict`."""
    settings = plan.settings
    if settings.runner == "ray":
        _check_possible_on_a_cluster(plan, custom, scripted, confirm, budget)
    limits = limits_of_one_process(settings)
    if budget is not None:
        limits = limits._replace(budget=budget)
    backends = Backends(
        settings,
        plan.pipeline,
        scripted,
        limits,
        announce=announce,
        on_remark=log_remark,
        custom=custom,
    )
    backends.confirm = confirm
    manifest = plan.manifest.model_copy(update={"backends": backends.describe()})
    manifest = manifest.with_destinations(map(str, backends.destinations))
    plan = plan._replace(manifest=manifest)
    cluster: AbstractContextManager[Any] = nullcontext()
    if settings.runner == "ray":
        from archqa.runs.ray.driver import ray_cluster

        cluster = ray_cluster(settings)
    # Connect to the cluster before anything is written.
    with cluster, open_folder(plan, out, resume=resume) as (folder, manifest):
        backends.audit = AuditLog(folder.path / "audit.jsonl")
        plan = plan._replace(manifest=manifest)
        progress = NotebookProgress("cases", len(plan.cases), len(folder.records()))

        def count_and_report(record: CaseRecord) -> None:
            progress.advance(failed=record.status is CaseStatus.FAILED)
            on_case(record)

        try:
            with progress:
                return run_sync(
                    _run(folder, plan, backends, on_start, count_and_report)
                )
        except KeyboardInterrupt:
            raise RunInterrupted(folder.path) from None


def _check_possible_on_a_cluster(
    plan: Plan,
    custom: CustomBackend | None,
    scripted: Model | None,
    confirm: ConfirmWrite | None,
    budget: BudgetProtocol | None,
) -> None:
    """Raise `CallerError` for what the processes of a cluster cannot be given."""
    if scripted is not None:
        raise CallerError(
            "A scripted model works in this process alone.\nLeave runner='ray' out."
        )
    if custom is not None:
        raise CallerError(
            "A backend that is an object works in this process alone.\n"
            "Leave runner='ray' out, or name a plug-in: its workers load it themselves."
        )
    if budget is not None:
        raise CallerError(
            "A budget that several runs share works in this process alone.\n"
            "Leave runner='ray' or --max-cost out."
        )
    # There is neither an audit log nor a person to confirm writes.
    if (
        confirm is not None
        or plan.settings.for_pipeline(plan.pipeline).writes_to_record
    ):
        raise CallerError(
            "On a cluster nothing is written to a record.\nRun it here, or leave writes=apply away."
        )


async def _run(
    folder: RunFolder,
    plan: Plan,
    backends: Backends,
    on_start: OnStart,
    on_case: OnCase,
) -> Run:
    """Run the cases that have not ended yet. Failed cases are tried again; refusals stand."""
    tries = {}
    ended = set()
    for record in folder.records().values():
        tries[record.id] = record.tries
        if record.status is not CaseStatus.FAILED:
            ended.add(record.id)
    open_cases = (case for case in plan.cases if case.id not in ended)
    cases = (
        plan.cases if isinstance(plan.cases, tuple) else None
    )  # Others stay on disk.
    job = Job(folder, plan.pipeline, plan.settings, backends, tries, on_case)
    started = time.monotonic()
    manifest = plan.manifest.with_remarks(backends.remarks)
    folder.write_manifest(manifest)
    on_start(manifest, len(ended))
    status = RunStatus.STOPPED
    run_all: Callable[[Iterable[Item], Job], Awaitable[None]] = run_cases
    if plan.settings.runner == "ray":
        from archqa.runs.ray import driver

        run_all = driver.run_cases
        backends.announce()  # Its workers send the requests.
    try:
        await run_all(open_cases, job)
        # What the run is for is written before it says that it has finished.
        run = Run(folder, cases)
        run.write_submission()
        run.write_task_files()
        status = RunStatus.FINISHED
    finally:
        await backends.close()
        changes = {
            "status": status,
            "ended_at": datetime.now(UTC),
            "seconds": manifest.seconds + time.monotonic() - started,
        }
        manifest = manifest.with_remarks(backends.remarks)
        folder.write_manifest(manifest.model_copy(update=changes))
    return Run(folder, cases)
