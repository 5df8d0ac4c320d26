"""Finds pipelines by name or as the default of a task."""

from archqa.core.near_misses import unknown_name
from archqa.errors import CallerError
from archqa.tasks import registry
from archqa.tasks.pipeline import NoteResult, Pipeline, PipelineResult, PipelineSettings

__all__ = [
    "NoteResult",
    "Pipeline",
    "PipelineResult",
    "PipelineSettings",
    "all_pipelines",
    "default",
    "find",
    "for_task",
    "task_names",
]


def all_pipelines() -> tuple[Pipeline, ...]:
    """The pipelines of all tasks, those of several tasks once."""
    pipelines: dict[Pipeline, None] = {}
    for task in registry.all_tasks():
        pipelines.update(dict.fromkeys(task.pipelines()))
    return tuple(pipelines)


def task_names(pipeline: Pipeline) -> tuple[str, ...]:
    """The names of the tasks that a pipeline can do."""
    return tuple(task.name for task in registry.all_tasks() if pipeline in task.pipelines())


def for_task(task: str) -> tuple[Pipeline, ...]:
    """The pipelines that can do a task."""
    return registry.find(task).pipelines()


def find(name: str, task: str | None = None) -> Pipeline:
    """The pipeline of this name for a task. Raises `CallerError` that lists the names there are."""
    task = task or registry.default_task().name
    pipelines = {pipeline.name: pipeline for pipeline in for_task(task)}
    if name not in pipelines:
        raise unknown_name("pipeline", name, pipelines, f" for {task}")
    return pipelines[name]


def default(task: str, *, model: bool) -> Pipeline:
    """The pipeline of a task when none is named. Raises `CallerError` if the task needs a model."""
    backend = "model" if model else "embedded"
    pipelines = for_task(task)
    for pipeline in pipelines:
        if pipeline.backend == backend:
            return pipeline
    scripts = [pipeline.name for pipeline in pipelines if pipeline.backend == "script"]
    if scripts:
        raise CallerError(
            f"{task} needs a model, or --pipeline {'|'.join(scripts)}.\n"
            "Add --model NAME or --base-url URL; a key in the environment alone sends nothing."
        )
    names = ", ".join(pipeline.name for pipeline in pipelines)
    raise CallerError(
        f"{task} needs a model.\n"
        f"Add --model NAME or --base-url URL, or choose a --pipeline of {names}."
    )
