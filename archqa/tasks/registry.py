"""Every task by name. The package of a task is imported when it is needed.

Settings of its pipelines are `PIPELINE_SETTINGS` in the module `settings` of the same package (see
`archqa.tasks.settings`).

Other distributions add tasks by entry points of the group `archqa.tasks`, which name a `Task`.
"""

import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from archqa import plug_ins
from archqa.core.near_misses import unknown_name
from archqa.errors import PlugInError

if TYPE_CHECKING:
    from archqa.tasks.task import Task

_TASKS = {
    "archehr-2025": "archqa.tasks.archehr_2025.task:ARCHEHR_2025",
    "archehr-2026-st1": "archqa.tasks.archehr_2026.task:SUBTASK_1",
    "archehr-2026-st2": "archqa.tasks.archehr_2026.task:SUBTASK_2",
    "archehr-2026-st3": "archqa.tasks.archehr_2026.task:SUBTASK_3",
    "archehr-2026-st4": "archqa.tasks.archehr_2026.task:SUBTASK_4",
    "fhir-agentbench": "archqa.tasks.fhir_agentbench.task:FHIR_AGENTBENCH",
    "medagentbench": "archqa.tasks.medagentbench.task:MEDAGENTBENCH",
}
"""Name → `module:attribute` of its `Task`. The first is the default of files that no task recognises."""


def names() -> tuple[str, ...]:
    """Names of all tasks, as `--task` takes them; those of plug-ins last, none imported."""
    further = plug_ins.installed("tasks", _TASKS)
    return (*_TASKS, *(plug_in.name for plug_in in further))


def paths() -> tuple[str, ...]:
    """The `module:attribute` of every registered task, without plug-ins."""
    return tuple(_TASKS.values())


def is_registered(name: str) -> bool:
    """Whether a task is archqa's own or was registered; else it may be a plug-in's."""
    return name in _TASKS


def find(name: str) -> "Task":
    """The task of that name. Raises `CallerError` with the nearest name if there is none.

    Raises `PlugInError` for a plug-in that cannot be used.
    """
    if isinstance(name, str):
        if name in _TASKS:
            task: Task = pkgutil.resolve_name(_TASKS[name])
            return task
        plug_in = plug_ins.find("tasks", name)
        if plug_in is not None:
            return _task_of(plug_in, plug_in.load())
    raise unknown_name("task", name, names())


def all_tasks() -> Iterator["Task"]:
    """Every task, in the order of `names`.

    A plug-in is imported when its turn comes; one that cannot be used is named in a warning.
    """
    yield from map(find, _TASKS)
    for plug_in, loaded in plug_ins.loaded("tasks", _TASKS):
        try:
            yield _task_of(plug_in, loaded)
        except PlugInError as error:
            plug_ins.warn(str(error))


def _task_of(plug_in: plug_ins.PlugIn, loaded: Any) -> "Task":
    from archqa.tasks.task import Task

    if not isinstance(loaded, Task) or loaded.name != plug_in.name:
        raise plug_in.problem("is no archqa.tasks.Task of that name")
    return loaded


def default_task() -> "Task":
    """The task of files that no task recognises: questions about notes with cited answers."""
    return find(next(iter(_TASKS)))
