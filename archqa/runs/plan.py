"""Plans a run before anything is written: which cases, which pipeline, which settings."""

import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from archqa import tasks
from archqa.agents.registry import prompts_of
from archqa.core.question import Item
from archqa.core.version import __version__
from archqa.runs.case_selection import Selection
from archqa.runs.folder import new_run_name
from archqa.runs.plug_in_origins import plug_in_origins
from archqa.runs.record import DataFingerprint, RunManifest
from archqa.runs.settings_check import check_settings_used
from archqa.safety.arguments import as_path
from archqa.settings import Settings
from archqa.tasks import CaseFile, pipelines
from archqa.tasks.case_tables import TABLE_PATH, CaseTable, is_table
from archqa.tasks.pipeline import Pipeline

_LIBRARIES = ("openai", "pydantic", "onnxruntime", "numpy")


class Plan(NamedTuple):
    """All that is decided before the first case starts."""

    manifest: RunManifest
    cases: Sequence[Item]
    pipeline: Pipeline
    settings: Settings


def choose_pipeline(settings: Settings, task: str) -> Pipeline:
    """Return the pipeline in the settings, else the task's default with or without a model.

    Raises `CallerError` for an unknown pipeline.
    """
    if settings.pipeline:
        return pipelines.find(settings.pipeline, task)
    return pipelines.default(task, model=settings.prefers_model_pipeline)


def plan_run(
    source: str | Path | CaseFile | CaseTable,
    task: str | None,
    selection: Selection,
    settings: Settings,
) -> Plan:
    """Return the plan of a run of these cases with these settings; write nothing.

    Raises `CallerError` for settings without effect and for an empty selection, `InputError` for a
    malformed file.
    """
    file = tasks.complete(_load(source, task))
    file = tasks.with_clinician_answers(file, settings.answer_key)
    positions = selection.positions(file.ids)
    pipeline = choose_pipeline(settings, file.task)
    check_settings_used(settings, pipeline)
    inputs = pipeline.inputs(settings.for_pipeline(pipeline))
    now = datetime.now(UTC)
    manifest = RunManifest(
        run=new_run_name(now, file.task, pipeline.name),
        started_at=now,
        task=file.task,
        pipeline=pipeline.name,
        data=_fingerprint(file),
        case_ids=tuple(file.ids[position] for position in positions),
        settings=settings.without_secrets(pipeline),
        backends={},
        prompts=_prompt_digests(pipeline, settings),
        inputs=dict(inputs.sha256),
        remarks=(*file.remarks, *inputs.remarks),
        versions=_versions(),
        plug_ins=plug_in_origins(file.task, pipeline, settings),
        git_revision=_git_revision(),
    )
    return Plan(manifest, file.select(positions), pipeline, settings)


def _load(source: str | Path | CaseFile | CaseTable, task: str | None) -> CaseFile:
    if isinstance(source, CaseFile):
        return source
    if is_table(source):
        return tasks.load_cases_to_answer(source, task)
    return tasks.load_cases_to_answer(as_path(source, "cases"), task)


def _fingerprint(file: CaseFile) -> DataFingerprint:
    is_no_file = str(file.path) in {"-", TABLE_PATH}
    path = str(file.path) if is_no_file else str(file.path.absolute())
    return DataFingerprint(path=path, sha256=file.sha256)


def _prompt_digests(pipeline: Pipeline, settings: Settings) -> dict[str, str]:
    """Prompt version to its sha256, for the versions that this run renders."""
    digests = {}
    for prompt in pipeline.prompts:
        version = settings.prompt_version(prompt)
        digests[version] = prompts_of(prompt, pipeline.agents).digest(version)
    return digests


def _versions() -> dict[str, str]:
    versions = {"archqa": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        versions[name] = metadata.version(name)
    return versions


def _git_revision() -> str | None:
    """Return the revision of the checkout archqa runs from; None in an installed wheel."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return completed.stdout.strip() or None
