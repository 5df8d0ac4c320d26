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
    """Return a run folder and its manifest: a new one or, with `resume`, the interrupted run's."""
    if not resume:
        return new_folder(plan, out), plan.manifest
    path = out
    if path is None:
        path = _latest_unfinished(Path("runs"), plan.manifest)
    if path is None:
        raise CallerError(
            "There is no unfinished run of these cases with these settings under runs/."
        )
    if (path / "run.json").is_file():
        return _reopen(path, plan.manifest)
    return new_folder(plan, path), plan.manifest


def new_folder(plan: Plan, out: Path | None) -> RunFolder:
    """Create the folder of a new run with its manifest and cases.

    Raises `CallerError` if it exists.
    """
    path = out or Path("runs") / plan.manifest.run
    folder = RunFolder.create(path)
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
    # A run may go on with another server: both are destinations of its record text.
    destinations = dict.fromkeys((*existing.destinations, *planned.destinations))
    running = {
        "status": RunStatus.RUNNING,
        "ended_at": None,
        "destinations": tuple(destinations),
    }
    return folder, existing.model_copy(update=running)


def manifest_differences(existing: RunManifest, planned: RunManifest) -> list[str]:
    """Return the names of what differs between two runs and may change a prediction."""
    differences = []
    for name in ("task", "pipeline", "case_ids", "prompts", "inputs"):
        if getattr(existing, name) != getattr(planned, name):
            differences.append(name)
    if _models(existing) != _models(planned):
        differences.append("backends")
    if existing.data.sha256 != planned.data.sha256:
        differences.append("the cases")
    if existing.task == planned.task and existing.pipeline == planned.pipeline:
        differences += _changed_settings(existing, planned)
    return differences


def _models(manifest: RunManifest) -> dict[str, str]:
    """Return the model of each agent; the address of its server makes no difference."""
    models = {}
    for agent, backend in manifest.backends.items():
        model, _, _ = backend.partition(" at ")
        models[agent] = model
    return models


def _changed_settings(existing: RunManifest, planned: RunManifest) -> list[str]:
    settings_before = _comparable_settings(existing)
    settings_now = _comparable_settings(planned)
    changed = []
    for name in sorted(settings_before.keys() | settings_now.keys()):
        if settings_before.get(name) != settings_now.get(name):
            changed.append(f"settings.{name}")
    return changed


def _comparable_settings(manifest: RunManifest) -> dict[str, Any]:
    """Return the settings that may change a prediction, by name.

    Of the pipelines' settings, only those of the run's own pipeline. Runs of earlier versions have
    the settings of all pipelines, under their short names.
    """
    values = nest(manifest.settings)
    sections = values.pop("pipelines", {})
    settings = {}
    for name, value in _leaves(values):
        if not _is_harmless(name):
            settings[name] = value
    pipeline = pipelines.find(manifest.pipeline, manifest.task)
    for name, value in sections.get(manifest.pipeline, {}).items():
        if name in pipeline.settings_type.model_fields:
            settings[name] = value
    return settings


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values that are no mappings, by dotted name, without those that are None."""
    for name, value in values.items():
        full_name = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{full_name}.")
        elif value is not None:
            yield full_name, value


def _is_harmless(name: str) -> bool:
    return name in _HARMLESS or name.startswith(_HARMLESS_SECTIONS)


def _latest_unfinished(runs: Path, planned: RunManifest) -> Path | None:
    """Return the latest run of the same cases and settings that did not finish."""
    for manifest_file in sorted(runs.glob("*/run.json"), reverse=True):
        path = manifest_file.parent
        existing = RunFolder(path).manifest()
        if existing.status is RunStatus.FINISHED:
            continue
        if not manifest_differences(existing, planned):
            return path
    return None
