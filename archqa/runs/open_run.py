"""Opens the folder of a run: a new one, or that of an interrupted run to resume."""

import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from archqa.core.id_lists import list_ids
from archqa.errors import ArchqaError, CallerError
from archqa.runs.folder import RunFolder, check_not_locked, run_lock
from archqa.runs.plan import Plan
from archqa.runs.record import AgentBackend, RunManifest, RunStatus
from archqa.runs.run import write_cases
from archqa.safety.files import storage_errors
from archqa.tasks import pipelines

_log = logging.getLogger(__name__)

_HARMLESS_SECTIONS = ("limits.", "retries.", "cache.", "ray.", "prices.")
_HARMLESS = frozenset({"allow_plain_http", "base_url", "pipeline", "runner"})
"""Settings that may change between a run and its resumption: they change no prediction."""


class OpenRun(NamedTuple):
    """The folder of a run whose lock is held, and the manifest that the run goes on with."""

    folder: RunFolder
    manifest: RunManifest


@contextmanager
def open_folder(plan: Plan, out: Path | None, *, resume: bool) -> Iterator[OpenRun]:
    """Hold a run's folder: a new one or, with `resume`, that of the interrupted run.

    Raises `CallerError` if a folder is there already, or was another run; `RunLocked` while another
    process works on it.
    """
    path = out
    if resume and path is None:
        path = _latest_unfinished(Path("runs"), plan.manifest)
        if path is None:
            raise CallerError(
                "There is no unfinished run of these cases with these settings under runs/."
            )
    if path is None or not (resume and _is_begun(path)):
        with new_folder(plan, path) as opened:
            yield opened
        return
    with run_lock(path) as remark:
        yield _with_remark(_reopen(path, plan), remark)


@contextmanager
def new_folder(plan: Plan, out: Path | None) -> Iterator[OpenRun]:
    """Hold the folder of a new run with its manifest and cases.

    Raises `CallerError` if it exists. A folder that cannot be filled is removed again.
    """
    path = out or Path("runs") / plan.manifest.run
    with created_folder(path) as (folder, remark):
        opened = _with_remark(OpenRun(folder, plan.manifest), remark)
        with removed_on_failure(folder):
            write_cases(folder, plan.manifest.task, plan.cases)
            # The manifest comes last: a folder that has one has all that a resumption needs.
            folder.write_manifest(opened.manifest)
        yield opened


@contextmanager
def created_folder(path: Path) -> Iterator[tuple[RunFolder, str]]:
    """Create a run folder and hold its lock; yields a remark where there are no locks.

    Raises `CallerError` if something is there already, `RunLocked` if it is a run in progress.
    """
    check_not_locked(path)
    RunFolder.check_unused(path)
    with storage_errors(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    with run_lock(path) as remark:
        yield RunFolder.create(path), remark


@contextmanager
def removed_on_failure(folder: RunFolder) -> Iterator[None]:
    """Remove a new folder, whose lock is held, if the block cannot fill it."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise


def _is_begun(path: Path) -> bool:
    with storage_errors(path):
        return (path / "run.json").is_file()


def _with_remark(opened: OpenRun, remark: str) -> OpenRun:
    """The run with a remark in its manifest, which is logged as well."""
    if not remark:
        return opened
    _log.warning("%s", remark)
    return opened._replace(manifest=opened.manifest.with_remarks([remark]))


def _reopen(path: Path, plan: Plan) -> OpenRun:
    folder = RunFolder.open(path)
    existing = folder.manifest()
    differences = manifest_differences(existing, plan.manifest)
    if differences:
        raise CallerError(
            f"{path} was another run: {list_ids(differences)} differ.\n"
            "Resume it as it was begun, or name a new --out."
        )
    folder.repair()
    if not folder.has_lines("input.jsonl", len(existing.case_ids)):
        # A kill, or a power cut, while the folder was made: the cases are those of the same file.
        write_cases(folder, existing.task, plan.cases)
    # A run may go on with another server: both are destinations of its record text.
    manifest = existing.with_destinations(plan.manifest.destinations)
    running = {"status": RunStatus.RUNNING, "ended_at": None}
    return OpenRun(folder, manifest.model_copy(update=running))


def manifest_differences(existing: RunManifest, planned: RunManifest) -> list[str]:
    """Return the names of what differs between two runs and may change a prediction."""
    differences = []
    for name in ("task", "pipeline", "case_ids", "prompts", "inputs", "plug_ins"):
        if getattr(existing, name) != getattr(planned, name):
            differences.append(name)
    if _without_servers(existing) != _without_servers(planned):
        differences.append("backends")
    if existing.data.sha256 != planned.data.sha256:
        differences.append("the cases")
    if existing.task == planned.task and existing.pipeline == planned.pipeline:
        settings_before = _comparable_settings(existing)
        settings_now = _comparable_settings(planned)
        for name in sorted(settings_before.keys() | settings_now.keys()):
            if settings_before.get(name) != settings_now.get(name):
                differences.append(f"settings.{name}")
    return differences


def _without_servers(manifest: RunManifest) -> dict[str, AgentBackend]:
    """Return what runs each agent; the address of its server makes no difference."""
    backends = {}
    for agent, backend in manifest.backends.items():
        backends[agent] = backend.model_copy(update={"server": None})
    return backends


def _comparable_settings(manifest: RunManifest) -> dict[str, Any]:
    """Return the settings that may change a prediction, by name.

    Of the pipelines' settings, only those of the run's own pipeline.
    """
    values = dict(manifest.settings)
    own_settings = _section(
        _section(values.pop("pipelines", {})).get(manifest.pipeline)
    )
    settings = {}
    for name, value in _leaves(values):
        if name not in _HARMLESS and not name.startswith(_HARMLESS_SECTIONS):
            settings[name] = value
    pipeline = pipelines.find(manifest.pipeline, manifest.task)
    for name, value in own_settings.items():
        if name in pipeline.settings_type.model_fields:
            settings[name] = value
    return settings


def _section(value: Any) -> Mapping[str, Any]:
    """A group of settings; empty where a damaged manifest has something else in its place."""
    return value if isinstance(value, Mapping) else {}


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values that are no mappings, by dotted name, without those that are None."""
    for name, value in values.items():
        full_name = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{full_name}.")
        elif value is not None:
            yield full_name, value


def _latest_unfinished(runs: Path, planned: RunManifest) -> Path | None:
    """Return the latest run of the same cases and settings that did not finish.

    Damaged runs are skipped, and named in one warning.
    """
    damaged: list[str] = []
    latest = None
    for manifest_file in sorted(runs.glob("*/run.json"), reverse=True):
        path = manifest_file.parent
        try:
            existing = RunFolder.open(path).manifest()
            is_finished = existing.status is RunStatus.FINISHED
            if not is_finished and not manifest_differences(existing, planned):
                latest = path
                break
        except ArchqaError:
            damaged.append(str(path))
    if damaged:
        _log.warning("skipped, since their run.json is damaged: %s", list_ids(damaged))
    return latest
