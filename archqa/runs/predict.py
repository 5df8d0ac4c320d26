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
from archqa.runs.backends import Backends, SharedLimits, limits_of_one_process, log_remark
from archqa.runs.case_selection import Selection
from archqa.runs.destinations import Announce
from archqa.runs.event_loop import run_sync
from archqa.runs.folder import RunFolder
from archqa.runs.interruption import naming_run
from archqa.runs.notebook_progress import NotebookProgress
from archqa.runs.open_run import open_folder
from archqa.runs.own_backends import OwnBackend, brought
from archqa.runs.plan import Plan, plan_run
from archqa.runs.record import CaseRecord, CaseStatus, RunManifest, RunStatus
from archqa.runs.run import Run
from archqa.runs.runner import Job, OnCase, run_cases
from archqa.safety.arguments import as_optional_path
from archqa.settings import Settings, load_settings
from archqa.tasks import CaseFile
from archqa.tasks.case_tables import CaseTable

OnStart = Callable[[RunManifest, int], None]
"""Called with the manifest and the number of cases that ended in an earlier try."""


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
    _check_types(selection, settings)
    path = as_optional_path(out, "out")
    settings = _chosen_settings(settings, typed)
    own = None
    if isinstance(backend, str):
        settings = _with_named_backend(settings, backend)
    elif backend is not None:
        own = brought(backend)
        settings = settings.replace(backend=own.name)
    _check_this_process(settings, scripted, budget, own)
    plan = plan_run(cases, task, selection or Selection(), settings)
    _check_writes(plan, confirmed=confirm is not None)
    backends = Backends(
        settings,
        plan.pipeline,
        scripted,
        _limits(settings, budget),
        announce=announce,
        on_remark=log_remark,
        own=own,
    )
    backends.confirm = confirm
    plan = _with_backends(plan, backends)
    # Connect to the cluster before anything is written.
    with _cluster(settings), open_folder(plan, path, resume=resume) as (folder, manifest):
        backends.audit = AuditLog(folder.path / "audit.jsonl")
        plan = plan._replace(manifest=manifest)
        progress = NotebookProgress("cases", len(plan.cases), len(folder.records()))
        with naming_run(folder.path), progress:
            return run_sync(_run(folder, plan, backends, on_start, _also(progress, on_case)))


def _also(progress: NotebookProgress, on_case: OnCase) -> OnCase:
    """Return a callback that counts the case in a notebook's progress too."""

    def count_too(record: CaseRecord) -> None:
        progress.advance(failed=record.status is CaseStatus.FAILED)
        on_case(record)

    return count_too


def _check_types(selection: object, settings: object) -> None:
    """Raise `CallerError` for what is no selection or no settings; neither is quoted."""
    if not isinstance(selection, Selection | None):
        kind = type(selection).__name__
        raise CallerError(f"selection is of type {kind}; it should be a Selection.")
    if not isinstance(settings, Settings | None):
        kind = type(settings).__name__
        raise CallerError(f"settings is of type {kind}; load_settings(typed=...) makes them.")


def _with_named_backend(settings: Settings, name: str) -> Settings:
    """The settings with a backend for every agent. Raises `CallerError` for an unknown one."""
    load_settings(typed={"backend": name})
    return settings.replace(backend=name)


def _check_this_process(
    settings: Settings,
    scripted: Model | None,
    budget: BudgetProtocol | None,
    own: OwnBackend | None,
) -> None:
    """Raise `CallerError` for what the processes of a cluster cannot be given."""
    if settings.runner != "ray":
        return
    if scripted is not None:
        raise CallerError("A scripted model works in this process alone.\nLeave runner='ray' out.")
    if own is not None:
        raise CallerError(
            "A backend that is an object works in this process alone.\n"
            "Leave runner='ray' out, or name a plug-in: its workers load it themselves."
        )
    if budget is not None:
        raise CallerError(
            "A budget that several runs share works in this process alone.\n"
            "Leave runner='ray' or --max-cost out."
        )


def _limits(settings: Settings, budget: BudgetProtocol | None) -> SharedLimits:
    limits = limits_of_one_process(settings)
    return limits if budget is None else limits._replace(budget=budget)


def _chosen_settings(settings: Settings | None, typed: dict[str, Any]) -> Settings:
    if settings is None:
        return load_settings(typed=typed)
    if typed:
        raise CallerError(
            f"Both settings and {list_ids(typed)} were given.\n"
            "Put them into one: load_settings(typed=...)."
        )
    return settings


def _with_backends(plan: Plan, backends: Backends) -> Plan:
    changes = {
        "backends": backends.describe(),
        "destinations": tuple(str(destination) for destination in backends.destinations),
    }
    return plan._replace(manifest=plan.manifest.model_copy(update=changes))


def _cluster(settings: Settings) -> AbstractContextManager[Any]:
    if settings.runner != "ray":
        return nullcontext()
    from archqa.runs.ray.cluster import ray_cluster

    return ray_cluster(settings)


def _check_writes(plan: Plan, *, confirmed: bool) -> None:
    """Raise `CallerError` for writes on a cluster.

    There is neither an audit log nor a person to confirm them.
    """
    if plan.settings.runner != "ray":
        return
    pipeline_settings = plan.settings.for_pipeline(plan.pipeline)
    if confirmed or pipeline_settings.writes_to_record:
        raise CallerError(
            "On a cluster nothing is written to a record.\nRun it here, or leave writes=apply away."
        )


def _runner(settings: Settings) -> Callable[[Iterable[Item], Job], Awaitable[None]]:
    if settings.runner != "ray":
        return run_cases
    from archqa.runs.ray import driver

    return driver.run_cases


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
    cases = plan.cases if isinstance(plan.cases, tuple) else None  # Others stay on disk.
    job = Job(folder, plan.pipeline, plan.settings, backends, tries, on_case)
    started = time.monotonic()
    plan = plan._replace(manifest=_with_remarks(plan.manifest, backends.remarks))
    folder.write_manifest(plan.manifest)
    on_start(plan.manifest, len(ended))
    status = RunStatus.STOPPED
    if plan.settings.runner == "ray":
        backends.announce()  # Its workers send the requests.
    try:
        await _runner(plan.settings)(open_cases, job)
        _write_results(Run(folder, cases))
        status = RunStatus.FINISHED
    finally:
        await backends.close()
        seconds = plan.manifest.seconds + time.monotonic() - started
        manifest = _with_remarks(plan.manifest, backends.remarks)
        folder.write_manifest(_ended(manifest, status, seconds))
    return Run(folder, cases)


def _write_results(run: Run) -> None:
    """Write what the run is for, before it says that it has finished."""
    run.write_submission()
    run.write_task_files()


def _with_remarks(manifest: RunManifest, remarks: Iterable[str]) -> RunManifest:
    """The manifest with further remarks; a resumed run repeats none."""
    distinct = tuple(dict.fromkeys((*manifest.remarks, *remarks)))
    return manifest.model_copy(update={"remarks": distinct})


def _ended(manifest: RunManifest, status: RunStatus, seconds: float) -> RunManifest:
    changes = {"status": status, "ended_at": datetime.now(UTC), "seconds": seconds}
    return manifest.model_copy(update=changes)
