"""Arrangements of agents: plain async functions from a case, question or task to its ending, found by name."""

from archqa.errors import CallerError
from archqa.tasks.archehr_2025.pipelines.dmis import AGENTS, PROMPTS, dmis
from archqa.tasks.archehr_2025.pipelines.panel import PANEL
from archqa.tasks.archehr_2025.settings import DmisSettings
from archqa.tasks.archehr_2026.pipelines import SUBTASK_PIPELINES
from archqa.tasks.fhir_agentbench.pipelines.catalogue import RECORD_PIPELINES
from archqa.tasks.medagentbench.pipelines.conversation import CLINICAL_PIPELINES
from archqa.tasks.pipeline import (
    CITED_ANSWER_TASKS,
    NoteResult,
    Pipeline,
    PipelineResult,
    PipelineSettings,
)

__all__ = [
    "PIPELINES",
    "NoteResult",
    "Pipeline",
    "PipelineResult",
    "PipelineSettings",
    "default",
    "find",
    "for_task",
]

PIPELINES = (
    Pipeline(
        name="dmis",
        summary="the six stages of DMIS Lab (ArchEHR-QA 2025), performed by a model",
        mind="model",
        run=dmis,
        prompts=PROMPTS,
        agents=AGENTS,
        settings_type=DmisSettings,
        tasks=CITED_ANSWER_TASKS,
    ),
    PANEL,
    Pipeline(
        name="embedded",
        summary="the same stages, performed by the engine inside archqa",
        mind="embedded",
        run=dmis,
        prompts=PROMPTS,
        agents=AGENTS,
        settings_type=DmisSettings,
        tasks=CITED_ANSWER_TASKS,
    ),
    *SUBTASK_PIPELINES,
    *RECORD_PIPELINES,
    *CLINICAL_PIPELINES,
)
"""Each task's first one with a model is what a model performs unless told otherwise; likewise without."""


def for_task(task: str) -> tuple[Pipeline, ...]:
    """The pipelines that can do a task."""
    return tuple(each for each in PIPELINES if task in each.tasks)


def find(name: str, task: str = "archehr-2025") -> Pipeline:
    """The pipeline of this name for a task. Raises `CallerError` that lists the names there are."""
    able = for_task(task)
    for each in able:
        if each.name == name:
            return each
    raise CallerError(
        f"There is no pipeline {name!r} for {task}.\nThere are: {', '.join(each.name for each in able)}."
    )


def default(task: str, *, model: bool) -> Pipeline:
    """The pipeline for a task when none is named. Raises `CallerError` if the task cannot be done without a model."""
    mind = "model" if model else "embedded"
    able = [each for each in for_task(task) if each.mind == mind]
    scripts = [each.name for each in for_task(task) if each.mind == "script"]
    if not able and scripts:
        raise CallerError(f"{task} needs a model, or --pipeline {'|'.join(scripts)}")
    if not able:
        known = ", ".join(each.name for each in for_task(task))
        raise CallerError(
            f"{task} needs a model.\nName one with --model or --base-url, or a --pipeline of {known}."
        )
    return able[0]
