"""`archqa list KIND`: what there is to choose from."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer

from archqa import tasks
from archqa.agents.registry import AGENT_NAMES
from archqa.cli.console import console
from archqa.errors import CallerError
from archqa.evaluation.scoring import metric_names
from archqa.llm.prices import listed_prices
from archqa.llm.prompts import default_prompts
from archqa.runs.export import formats
from archqa.runs.model_server import list_models
from archqa.runs.run import Run
from archqa.settings import load_settings
from archqa.settings.catalogue import SettingDescription, describe_settings
from archqa.tasks import pipelines


def command(
    kind: Annotated[str, typer.Argument(help="What to list; without it, the kinds.")] = "kinds",
    pipeline: Annotated[
        str | None, typer.Option(help="Only the settings that this pipeline uses.")
    ] = None,
) -> None:
    """List pipelines, tasks, agents, prompts, metrics, formats, prices, settings, runs or the server's models.

    Example:
      archqa list pipelines
    """
    if kind == "kinds":
        console.print("\n".join(_KINDS))
        return
    if kind not in _KINDS:
        raise CallerError(
            f"There is nothing called {kind!r} to list.\nThere are: {', '.join(_KINDS)}."
        )
    if pipeline is not None and kind != "settings":
        raise CallerError(
            "--pipeline narrows settings alone: archqa list settings --pipeline panel"
        )
    lines = _settings(pipeline) if kind == "settings" else _KINDS[kind]()
    for line in lines:
        console.print(line, markup=False)


def _pipelines() -> Iterable[str]:
    return (f"{each.name:10} {each.summary}" for each in pipelines.all_pipelines())


def _tasks() -> Iterable[str]:
    return (f"{name:18} {tasks.find(name).title}" for name in tasks.names())


def _prompts() -> Iterable[str]:
    prompts = default_prompts()
    names = sorted(
        str(path.parent.relative_to(prompts.folder))
        for path in prompts.folder.glob("*/v*/system.jinja")
    )
    return (f"{name:26} sha256 {prompts.digest(name)[:12]}" for name in names)


def _prices() -> Iterable[str]:
    for name, price in listed_prices().items():
        dollars = f"${price.prompt:g} in, ${price.cached:g} cached, ${price.completion:g} out per million tokens"
        yield f"{name:14} {dollars} ({price.source}, {price.as_of})"


def _settings(pipeline: str | None = None) -> Iterable[str]:
    """The settings: name, short name, type, default, description, owners; with a pipeline, only those it uses."""
    settings = describe_settings()
    if pipeline is not None:
        settings = [_of_pipeline(pipeline, each) for each in settings if pipeline in each.owners]
    if not settings:
        known = ", ".join(dict.fromkeys(each.name for each in pipelines.all_pipelines()))
        raise CallerError(f"No pipeline {pipeline!r} has settings.\nThere are: {known}.")
    return (_setting_line(setting) for setting in settings)


def _of_pipeline(pipeline: str, setting: SettingDescription) -> SettingDescription:
    return setting._replace(name=setting.name.replace("<name>", pipeline))


def _setting_line(setting: SettingDescription) -> str:
    short_name = f" ({setting.short_name})" if setting.short_name else ""
    default = f" [default: {setting.default}]" if setting.default else ""
    owners = f" (of {', '.join(setting.owners)})" if setting.owners != ("run",) else ""
    return f"{setting.name}{short_name}: {setting.type}{default}. {setting.description}{owners}"


def _runs() -> Iterable[str]:
    for path in sorted(Path("runs").glob("*/run.json")):
        run = Run.open(path.parent)
        yield f"{run.path}  {run.manifest.status.value}  {len(run.records)} of {len(run.manifest.case_ids)} cases"


def _models() -> Iterable[str]:
    return asyncio.run(list_models(load_settings()))


_KINDS: dict[str, Callable[[], Iterable[str]]] = {
    "pipelines": _pipelines,
    "tasks": _tasks,
    "agents": lambda: AGENT_NAMES,
    "prompts": _prompts,
    "metrics": metric_names,
    "formats": formats,
    "prices": _prices,
    "settings": _settings,
    "runs": _runs,
    "models": _models,
}
