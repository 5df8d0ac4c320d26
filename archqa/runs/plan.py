"""What a run will be, decided before anything is written: which cases, by which pipeline, with which settings."""

import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import archqa
from archqa import tasks
from archqa.core.question import Item
from archqa.llm.prompts import default_prompts
from archqa.runs.case_selection import Selection
from archqa.runs.folder import new_run_name
from archqa.runs.record import DataFingerprint, RunManifest
from archqa.runs.settings_check import check_settings_used
from archqa.settings import Settings
from archqa.tasks import CaseFile, pipelines
from archqa.tasks.pipeline import Pipeline

_LIBRARIES = ("openai", "pydantic", "onnxruntime", "numpy")


class Plan(NamedTuple):
    """All that is decided before the first case starts."""

    manifest: RunManifest
    cases: Sequence[Item]
    pipeline: Pipeline
    settings: Settings


def choose_pipeline(settings: Settings, task: str) -> Pipeline:
    """The pipeline asked for; else the paper's if a model is set up, else the embedded engine's.

    Raises `CallerError` for an unknown pipeline.
    """
    if settings.pipeline:
        return pipelines.find(settings.pipeline, task)
    return pipelines.default(task, model=settings.has_model)


def plan_run(
    source: str | Path | CaseFile, task: str | None, selection: Selection, settings: Settings
) -> Plan:
    """What a run of these cases with these settings would be; nothing is written yet."""
    file = source if isinstance(source, CaseFile) else tasks.load_cases(str(source), task)
    file = tasks.with_clinician_answers(file, settings.answer_key)
    places = selection.places(file.ids)
    pipeline = choose_pipeline(settings, file.task)
    check_settings_used(settings, pipeline)
    inputs = pipeline.inputs(settings.for_pipeline(pipeline))
    now = datetime.now(UTC)
    manifest = RunManifest(
        run=new_run_name(now, file.task, pipeline.name),
        started_at=now,
        task=file.task,
        pipeline=pipeline.name,
        data=DataFingerprint(
            path=str(file.path.absolute()) if str(file.path) != "-" else "-", sha256=file.sha256
        ),
        case_ids=tuple(file.ids[each] for each in places),
        settings=settings.without_secrets(pipeline),
        minds={},
        prompts={
            name: default_prompts().digest(name)
            for name in map(settings.prompt_version, pipeline.prompts)
        },
        inputs=dict(inputs.sha256),
        remarks=inputs.remarks,
        versions=_versions(),
        git_revision=_git_revision(),
    )
    return Plan(manifest, file.at(places), pipeline, settings)


def _versions() -> dict[str, str]:
    installed = {name: metadata.version(name) for name in _LIBRARIES}
    return {"archqa": archqa.__version__, "python": platform.python_version(), **installed}


def _git_revision() -> str | None:
    """The revision of the checkout archqa runs from; None in an installed wheel."""
    here = Path(archqa.__file__).resolve().parent.parent
    if not (here / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
