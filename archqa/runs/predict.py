"""The main job: cases in, a run folder out; new, or going on where a run stopped."""

import asyncio
import platform
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import archqa
from archqa import benchmarks, pipelines
from archqa.benchmarks import CaseFile
from archqa.core.case import Case
from archqa.errors import CallerError
from archqa.llm.base import Model
from archqa.llm.prompts import default_prompts
from archqa.pipelines.base import Pipeline
from archqa.runs.folder import RunFolder, new_name
from archqa.runs.minds import Minds
from archqa.runs.record import CaseStatus, DataFingerprint, RunManifest, RunStatus
from archqa.runs.run import Run, write_cases
from archqa.runs.runner import Job, OnCase, run_cases
from archqa.runs.selection import Selection
from archqa.settings import Settings, load_settings

_LIBRARIES = ("openai", "pydantic", "onnxruntime", "numpy")

_PACE = frozenset({"jobs", "requests_per_minute", "tokens_per_minute", "timeout", "tries", "first_wait"})
_HARMLESS = _PACE | {"max_cost", "cache", "cache_dir", "cache_gib", "prices", "pipeline"}
"""Settings that may change between a run and its resumption: they change no prediction."""

OnStart = Callable[[RunManifest, int], None]


def _unheard(*_: object) -> None:
    """Nobody follows the run."""


class Plan(NamedTuple):
    """All that is decided before the first case starts."""

    manifest: RunManifest
    cases: Sequence[Case]
    pipeline: Pipeline
    settings: Settings


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
    folder, manifest = _open(plan, Path(out) if out else None, resume=resume)
    return _in_own_loop(_carry_out(folder, plan._replace(manifest=manifest), minds, on_start, on_case))


def choose_pipeline(settings: Settings) -> Pipeline:
    """The pipeline asked for; else the paper's if a model is set up, else the embedded engine's."""
    return pipelines.find(settings.pipeline or ("dmis" if settings.has_model else "embedded"))


def plan_run(source: str | Path | CaseFile, task: str | None, selection: Selection, settings: Settings) -> Plan:
    """What a run of these cases with these settings would be; nothing is written yet."""
    file = source if isinstance(source, CaseFile) else benchmarks.load_cases(str(source), task)
    places = selection.places(file.ids)
    pipeline = choose_pipeline(settings)
    now = datetime.now(UTC)
    manifest = RunManifest(
        run=new_name(now, file.task, pipeline.name),
        started_at=now,
        task=file.task,
        pipeline=pipeline.name,
        data=DataFingerprint(path=str(file.path.absolute()) if str(file.path) != "-" else "-", sha256=file.sha256),
        case_ids=tuple(file.ids[each] for each in places),
        settings=settings.without_secrets(),
        minds={},
        prompts=_prompt_digests(),
        versions=_versions(),
        git_revision=_git_revision(),
    )
    return Plan(manifest, file.at(places), pipeline, settings)


def _open(plan: Plan, out: Path | None, *, resume: bool) -> tuple[RunFolder, RunManifest]:
    """A new folder, or the one to go on with, and the manifest that holds there."""
    if resume:
        found = out if out is not None else _unfinished(Path("runs"), plan.manifest)
        if found is not None and (found / "run.json").is_file():
            return _reopen(found, plan.manifest)
        if out is None:
            raise CallerError("There is no unfinished run of these cases with these settings under runs/.")
    return new_folder(plan, out), plan.manifest


def new_folder(plan: Plan, out: Path | None) -> RunFolder:
    """The folder of a run that begins: its description and its cases. Raises `CallerError` if it exists."""
    folder = RunFolder.create(out or Path("runs") / plan.manifest.run)
    folder.write_manifest(plan.manifest)
    write_cases(folder, plan.cases)
    return folder


def _reopen(path: Path, wanted: RunManifest) -> tuple[RunFolder, RunManifest]:
    folder = RunFolder.open(path)
    there = folder.manifest()
    differences = _differences(there, wanted)
    if differences:
        raise CallerError(
            f"{path} was another run: {', '.join(differences)} differ.\nResume it as it was begun, or name a new --out."
        )
    folder.mend()
    return folder, there.model_copy(update={"status": RunStatus.RUNNING, "ended_at": None})


def _differences(there: RunManifest, wanted: RunManifest) -> list[str]:
    names = [name for name in ("task", "pipeline", "case_ids", "minds", "prompts") if _field(there, wanted, name)]
    if there.data.sha256 != wanted.data.sha256:
        names.append("the cases")
    settings = {**there.settings, **wanted.settings}
    changed = (each for each in settings if there.settings.get(each) != wanted.settings.get(each))
    return names + sorted(f"settings.{each}" for each in changed if each not in _HARMLESS)


def _field(there: RunManifest, wanted: RunManifest, name: str) -> bool:
    return bool(getattr(there, name) != getattr(wanted, name))


def _unfinished(runs: Path, wanted: RunManifest) -> Path | None:
    """The latest run of the same cases and settings that did not finish."""
    for path in sorted((each.parent for each in runs.glob("*/run.json")), reverse=True):
        there = RunFolder(path).manifest()
        if there.status is not RunStatus.FINISHED and not _differences(there, wanted):
            return path
    return None


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


def _in_own_loop(work: Any) -> Run:
    """Run to the end, also where a loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _result(work)
    results: list[Run] = []
    thread = threading.Thread(target=lambda: results.append(_result(work)))
    thread.start()
    thread.join()
    return results[0]


def _result(work: Any) -> Run:
    run = asyncio.run(work)
    assert isinstance(run, Run)
    return run


def _prompt_digests() -> dict[str, str]:
    prompts = default_prompts()
    names = sorted(str(path.parent.relative_to(prompts.folder)) for path in prompts.folder.glob("*/v*/system.jinja"))
    return {name: prompts.digest(name) for name in names}


def _versions() -> dict[str, str]:
    installed = {name: metadata.version(name) for name in _LIBRARIES}
    return {"archqa": archqa.__version__, "python": platform.python_version(), **installed}


def _git_revision() -> str | None:
    """The revision of the checkout archqa runs from; None in an installed wheel."""
    here = Path(archqa.__file__).resolve().parent.parent
    if not (here / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
