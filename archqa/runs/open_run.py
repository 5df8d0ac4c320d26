"""The folder of a run: a new one, or the one in which an interrupted run goes on as it was begun."""

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
    """A new folder, or the one to go on with, and the manifest that holds there."""
    if resume:
        found = out if out is not None else _unfinished(Path("runs"), plan.manifest)
        if found is not None and (found / "run.json").is_file():
            return _reopen(found, plan.manifest)
        if out is None:
            raise CallerError(
                "There is no unfinished run of these cases with these settings under runs/."
            )
    return new_folder(plan, out), plan.manifest


def new_folder(plan: Plan, out: Path | None) -> RunFolder:
    """The folder of a run that begins: its description and its cases. Raises `CallerError` if it exists."""
    folder = RunFolder.create(out or Path("runs") / plan.manifest.run)
    folder.write_manifest(plan.manifest)
    write_cases(folder, plan.manifest.task, plan.cases)
    return folder


def _reopen(path: Path, wanted: RunManifest) -> tuple[RunFolder, RunManifest]:
    folder = RunFolder.open(path)
    there = folder.manifest()
    changed = manifest_differences(there, wanted)
    if changed:
        raise CallerError(
            f"{path} was another run: {', '.join(changed)} differ.\nResume it as it was begun, or name a new --out."
        )
    folder.mend()
    return folder, there.model_copy(update={"status": RunStatus.RUNNING, "ended_at": None})


def manifest_differences(there: RunManifest, wanted: RunManifest) -> list[str]:
    """By what two runs differ that may change a prediction, in names."""
    names = [
        name
        for name in ("task", "pipeline", "case_ids", "prompts", "inputs")
        if _field(there, wanted, name)
    ]
    if _performers(there) != _performers(wanted):
        names.append("minds")
    if there.data.sha256 != wanted.data.sha256:
        names.append("the cases")
    return names + _changed_settings(there, wanted)


def _changed_settings(there: RunManifest, wanted: RunManifest) -> list[str]:
    before, now = _comparable_settings(there), _comparable_settings(wanted)
    changed = (name for name in {**before, **now} if before.get(name) != now.get(name))
    return sorted(f"settings.{name}" for name in changed)


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


def _field(there: RunManifest, wanted: RunManifest, name: str) -> bool:
    return bool(getattr(there, name) != getattr(wanted, name))


def _performers(manifest: RunManifest) -> dict[str, str]:
    """Who performs each agent; at which address a server listens makes no difference."""
    return {agent: mind.partition(" at ")[0] for agent, mind in manifest.minds.items()}


def _unfinished(runs: Path, wanted: RunManifest) -> Path | None:
    """The latest run of the same cases and settings that did not finish."""
    for path in sorted((each.parent for each in runs.glob("*/run.json")), reverse=True):
        there = RunFolder(path).manifest()
        if there.status is not RunStatus.FINISHED and not manifest_differences(there, wanted):
            return path
    return None
