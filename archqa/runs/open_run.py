"""Opens the folder of a run: a new one, or that of an interrupted run to resume."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from archqa.errors import CallerError
from archqa.runs.folder import RunFolder
from archqa.runs.plan import Plan
from archqa.runs.record import RunManifest, RunStatus
from archqa.runs.run import write_cases
from archqa.settings.names import nest
from archqa.tasks import pipelines

_HARMLESS_SECTIONS = ("limits.", "retries.", "cache.", "ray.", "prices.")
_HARMLESS = frozenset({"base_url", "pipeline", "runner"})
"""Settings that may change between a run and its resumption: they change no prediction."""


def open_folder(plan: Plan, out: Path | None, *, resume: bool) -> tuple[RunFolder, RunManifest]:
    """A new folder, or with `resume` that of the interrupted run, and the manifest to go on with."""
    if resume:
        path = out if out is not None else _latest_unfinished(Path("runs"), plan.manifest)
        if path is not None and (path / "run.json").is_file():
            return _reopen(path, plan.manifest)
        if out is None:
            raise CallerError(
                "There is no unfinished run of these cases with these settings under runs/."
            )
    return new_folder(plan, out), plan.manifest


def new_folder(plan: Plan, out: Path | None) -> RunFolder:
    """The folder of a new run, with its manifest and its cases. Raises `CallerError` if it exists."""
    folder = RunFolder.create(out or Path("runs") / plan.manifest.run)
    folder.write_manifest(plan.manifest)
    write_cases(folder, plan.manifest.task, plan.cases)
    return folder


def _reopen(path: Path, planned: RunManifest) -> tuple[RunFolder, RunManifest]:
    folder = RunFolder.open(path)
    existing = folder.manifest()
    differences = manifest_differences(existing, planned)
    if differences:
        raise CallerError(
            f"{path} was another run: {', '.join(differences)} differ.\n"
            "Resume it as it was begun, or name a new --out."
        )
    folder.mend()
    return folder, existing.model_copy(update={"status": RunStatus.RUNNING, "ended_at": None})


def manifest_differences(existing: RunManifest, planned: RunManifest) -> list[str]:
    """The names of what differs between two runs and may change a prediction."""
    differences = []
    for name in ("task", "pipeline", "case_ids", "prompts", "inputs"):
        if getattr(existing, name) != getattr(planned, name):
            differences.append(name)
    if _models(existing) != _models(planned):
        differences.append("minds")
    if existing.data.sha256 != planned.data.sha256:
        differences.append("the cases")
    if existing.task == planned.task and existing.pipeline == planned.pipeline:
        differences += _changed_settings(existing, planned)
    return differences


def _models(manifest: RunManifest) -> dict[str, str]:
    """The model of each agent; the address of its server makes no difference."""
    return {agent: text.partition(" at ")[0] for agent, text in manifest.minds.items()}


def _changed_settings(existing: RunManifest, planned: RunManifest) -> list[str]:
    before, now = _comparable_settings(existing), _comparable_settings(planned)
    names = before.keys() | now.keys()
    return sorted(f"settings.{name}" for name in names if before.get(name) != now.get(name))


def _comparable_settings(manifest: RunManifest) -> dict[str, Any]:
    """The settings that may change a prediction, by name; of the pipelines' only those of the run's own.

    Runs of earlier versions hold the settings of all pipelines, under their short names.
    """
    values = nest(manifest.settings)
    sections = values.pop("pipelines", {})
    settings = {name: value for name, value in _leaves(values) if not _is_harmless(name)}
    own = sections.get(manifest.pipeline, {})
    used = pipelines.find(manifest.pipeline, manifest.task).settings_type.model_fields
    return settings | {name: value for name, value in own.items() if name in used}


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The values that are no mappings, by dotted name; what is unset is left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", value


def _is_harmless(name: str) -> bool:
    return name in _HARMLESS or name.startswith(_HARMLESS_SECTIONS)


def _latest_unfinished(runs: Path, planned: RunManifest) -> Path | None:
    """The latest run of the same cases and settings that did not finish."""
    paths = [manifest.parent for manifest in runs.glob("*/run.json")]
    for path in sorted(paths, reverse=True):
        existing = RunFolder(path).manifest()
        if existing.status is RunStatus.FINISHED:
            continue
        if not manifest_differences(existing, planned):
            return path
    return None
