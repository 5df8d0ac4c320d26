"""The folder of a run: a new one, or the one in which an interrupted run goes on as it was begun."""

from pathlib import Path

from archqa.errors import CallerError
from archqa.runs.folder import RunFolder
from archqa.runs.plan import Plan
from archqa.runs.record import RunManifest, RunStatus
from archqa.runs.run import write_cases

_PACE = frozenset(
    {"jobs", "requests_per_minute", "tokens_per_minute", "timeout", "tries", "first_wait"}
)
_PLACE = frozenset({"runner", "ray_address", "workers", "cache_url"})
_HARMLESS = (
    _PACE
    | {"max_cost", "base_url", "cache", "cache_dir", "cache_gib", "prices", "pipeline"}
    | _PLACE
)
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
    settings = {**there.settings, **wanted.settings}
    changed = (each for each in settings if there.settings.get(each) != wanted.settings.get(each))
    return names + sorted(f"settings.{each}" for each in changed if each not in _HARMLESS)


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
