"""Refuses settings that were typed for a run but have no effect on it."""

from collections.abc import Sequence

from archqa.errors import CallerError
from archqa.settings import Settings
from archqa.tasks.pipeline import Pipeline
from archqa.tasks.pipelines import all_pipelines, task_names


def check_settings_used(settings: Settings, *chosen: Pipeline) -> None:
    """Raise one `CallerError` for all typed settings that none of the chosen pipelines uses.

    Settings in a file or the environment serve many runs and are not checked.
    """
    mistakes = []
    for name in sorted(settings.typed_names):
        if any(_uses(pipeline, name) for pipeline in chosen):
            continue
        users = _users(name, chosen) or "none"
        names = []
        for pipeline in chosen:
            # A pipeline of another task may have the same name and use it.
            is_ambiguous = f"{pipeline.name} (" in users
            task = f" ({task_names(pipeline)[0]})" if is_ambiguous else ""
            names.append(f"{pipeline.name}{task}")
        chosen_names = " and ".join(dict.fromkeys(names))
        if name.startswith("agents."):
            problem = f"has no such agent. Pipelines that have it: {users}."
        else:
            problem = f"does not use it. Pipelines that use it: {users}."
        mistakes.append(f"  {name}: {chosen_names} {problem}")
    if mistakes:
        advice = "Leave them out, or choose another pipeline with --pipeline."
        raise CallerError("\n".join(["Invalid settings:", *mistakes, advice]))


def _uses(pipeline: Pipeline, name: str) -> bool:
    """Whether a setting has an effect: `labels`, `pipelines.dmis.labels` or `agents.decision`."""
    if name == "pipeline":
        return True
    if name == "backend":
        return bool(pipeline.agents)
    section, _, rest = name.partition(".")
    if section == "agents":
        return rest in pipeline.agents
    if section == "pipelines":
        owner, _, name = rest.rpartition(".")
        if owner != pipeline.name:
            return False
    return name in pipeline.settings_type.model_fields


def _users(name: str, chosen: Sequence[Pipeline]) -> str:
    """Return the pipelines that use a setting: those for the same tasks, else all with a task."""
    chosen_tasks: set[str] = set()
    for pipeline in chosen:
        chosen_tasks.update(task_names(pipeline))
    of_same_task = []
    with_task = []
    for pipeline in all_pipelines():
        if _uses(pipeline, name):
            tasks = task_names(pipeline)
            with_task.append(f"{pipeline.name} ({tasks[0]})")
            if not chosen_tasks.isdisjoint(tasks):
                of_same_task.append(pipeline.name)
    return ", ".join(of_same_task or with_task)
