"""Every task by name. The package of a task is imported when it is needed."""

import pkgutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from archqa.core.near_misses import unknown_name

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


def register(name: str, path: str) -> None:
    """Add a task: its name and the `module:attribute` of its `Task`.

    Settings of its pipelines are `PIPELINE_SETTINGS` in the module `settings` of the same package
    (see `archqa.tasks.settings`). Register it before settings are loaded.
    """
    _TASKS[name] = path


def names() -> tuple[str, ...]:
    """Names of all tasks, as `--task` takes them."""
    return tuple(_TASKS)


def paths() -> tuple[str, ...]:
    """The `module:attribute` of every task, in the order of `names`."""
    return tuple(_TASKS.values())


def find(name: str) -> "Task":
    """The task of that name. Raises `CallerError` with the nearest name if there is none."""
    if isinstance(name, str) and name in _TASKS:
        task: Task = pkgutil.resolve_name(_TASKS[name])
        return task
    raise unknown_name("task", name, names())


def all_tasks() -> Iterator["Task"]:
    """Every task, in the order of the registry."""
    return map(find, names())


def default_task() -> "Task":
    """The task of files that no task recognises: questions about notes with cited answers."""
    return find(names()[0])
