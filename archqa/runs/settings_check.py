"""Refuses settings that were typed for a run but have no effect on it."""

from collections.abc import Iterable

from archqa.errors import CallerError
from archqa.settings import Settings
from archqa.tasks.pipeline import Pipeline
from archqa.tasks.pipelines import all_pipelines, task_names


def check_settings_used(settings: Settings, *chosen: Pipeline) -> None:
    """Raise `CallerError` for typed settings that none of the chosen pipelines uses, all of them at once.

    Settings in a file or the environment serve many runs and are not checked.
    """
    unused = [
        name
        for name in sorted(settings.typed_names)
        if not any(_uses(pipeline, name) for pipeline in chosen)
    ]
    if not unused:
        return
    lines = [f"  {_explanation(name, chosen)}" for name in unused]
    advice = "Leave them out, or choose another pipeline with --pipeline."
    raise CallerError("\n".join(["Invalid settings:", *lines, advice]))


def _uses(pipeline: Pipeline, name: str) -> bool:
    """Whether a setting has an effect: `labels`, `pipelines.panel.labels` or `agents.decision`."""
    section, _, rest = name.partition(".")
    if section == "agents":
        return rest in pipeline.agents
    if section == "pipelines":
        owner, _, setting = rest.rpartition(".")
        return owner == pipeline.name and setting in pipeline.settings_type.model_fields
    return name in pipeline.settings_type.model_fields


def _explanation(name: str, chosen: Iterable[Pipeline]) -> str:
    chosen = tuple(chosen)
    names = " and ".join(dict.fromkeys(pipeline.name for pipeline in chosen))
    users = [pipeline for pipeline in all_pipelines() if _uses(pipeline, name)]
    tasks = {task for pipeline in chosen for task in task_names(pipeline)}
    same_task = [pipeline for pipeline in users if tasks & set(task_names(pipeline))]
    others = ", ".join(_with_task(pipeline) for pipeline in users)
    if same_task:
        others = ", ".join(pipeline.name for pipeline in same_task)
    problem = f"{name}: {names} does not use it"
    if name.startswith("agents."):
        problem = f"{name}: {names} has no such agent"
    verb = "have it" if name.startswith("agents.") else "use it"
    return f"{problem}. Pipelines that {verb}: {others or 'none'}."


def _with_task(pipeline: Pipeline) -> str:
    return f"{pipeline.name} ({task_names(pipeline)[0]})"
