"""Finds pipelines by name or as the default of a task.

Other distributions add pipelines by entry points of the group `archqa.pipelines`. Each names a
`Pipeline`, whose `tasks` say what it can do.
"""

from collections.abc import Iterator
from typing import Any

from archqa import plug_ins
from archqa.core.near_misses import unknown_name
from archqa.errors import CallerError, PlugInError
from archqa.tasks import registry
from archqa.tasks.pipeline import Pipeline


def all_pipelines() -> tuple[Pipeline, ...]:
    """The pipelines of all tasks, those of several tasks once; those of plug-ins last."""
    pipelines: dict[Pipeline, None] = {}
    for task in registry.all_tasks():
        pipelines.update(dict.fromkeys(task.pipelines()))
    pipelines.update(dict.fromkeys(_of_plug_ins()))
    return tuple(pipelines)


def task_names(pipeline: Pipeline) -> tuple[str, ...]:
    """The names of the tasks that a pipeline can do."""
    names = []
    for task in registry.all_tasks():
        if task.name in pipeline.tasks or pipeline in task.pipelines():
            names.append(task.name)
    return tuple(names)


def for_task(task: str) -> tuple[Pipeline, ...]:
    """The pipelines that can do a task, those of plug-ins last."""
    pipelines = list(registry.find(task).pipelines())
    for pipeline in _of_plug_ins():
        if task in pipeline.tasks:
            pipelines.append(pipeline)
    return tuple(pipelines)


def find(name: str, task: str | None = None) -> Pipeline:
    """The pipeline of this name for a task. Raises `CallerError` that lists the names there are.

    Raises `PlugInError` for a plug-in that cannot be used.
    """
    task = task or registry.default_task().name
    for pipeline in registry.find(task).pipelines():
        if pipeline.name == name:
            plug_ins.warn_of_clash("pipelines", name)
            return pipeline
    plugged_in = find_plug_in(name)
    if plugged_in is not None and task in plugged_in.tasks:
        return plugged_in
    names = [pipeline.name for pipeline in for_task(task)]
    raise unknown_name("pipeline", name, names, f" for {task}")


def find_plug_in(name: str) -> Pipeline | None:
    """The pipeline of a plug-in; None if no plug-in has the name. Raises `PlugInError`."""
    plug_in = plug_ins.find("pipelines", name)
    if plug_in is None or name in built_in_names():
        return None
    return _pipeline_of(plug_in, plug_in.load())


def built_in_names() -> frozenset[str]:
    """The names of the pipelines of registered tasks, which no plug-in can take."""
    names: set[str] = set()
    for task in filter(registry.is_registered, registry.names()):
        names.update(pipeline.name for pipeline in registry.find(task).pipelines())
    return frozenset(names)


def _of_plug_ins() -> Iterator[Pipeline]:
    """The pipelines of plug-ins; one that cannot be used is named in a warning."""
    if not plug_ins.installed("pipelines"):
        return
    for plug_in, loaded in plug_ins.loaded("pipelines", built_in_names()):
        try:
            yield _pipeline_of(plug_in, loaded)
        except PlugInError as error:
            plug_ins.warn(str(error))


def _pipeline_of(plug_in: plug_ins.PlugIn, loaded: Any) -> Pipeline:
    if not isinstance(loaded, Pipeline) or loaded.name != plug_in.name:
        raise plug_in.problem("is no archqa.tasks.pipeline.Pipeline of that name")
    if not loaded.tasks:
        raise plug_in.problem(
            "names no tasks that it can do", "Set Pipeline(tasks=...) in it."
        )
    return loaded


def default(task: str, *, model: bool) -> Pipeline:
    """The pipeline of a task when none is named, which is never a plug-in's.

    Raises `CallerError` if the task needs a model.
    """
    backend = "model" if model else "embedded"
    names = []
    scripts = []
    for pipeline in registry.find(task).pipelines():
        if pipeline.backend == backend:
            return pipeline
        names.append(pipeline.name)
        if pipeline.backend == "script":
            scripts.append(pipeline.name)
    if scripts:
        raise CallerError(
            f"{task} needs a model, or --pipeline {'|'.join(scripts)}.\n"
            "Add --model NAME or --base-url URL; a key in the environment alone sends nothing."
        )
    raise CallerError(
        f"{task} needs a model.\n"
        f"Add --model NAME or --base-url URL, or choose a --pipeline of {', '.join(names)}."
    )
