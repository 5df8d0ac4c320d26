"""`archqa list KIND`: the names that options and settings take."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from archqa import plug_ins
from archqa.agents.registry import AGENT_NAMES, agent_names
from archqa.cli.console import console, print_json, print_notice
from archqa.cli.model_servers import HOW_TO_START, model_json, model_lines
from archqa.cli.options import AllowPlainHttpOption, ConfigOption, command_settings
from archqa.core.near_misses import unknown_name
from archqa.errors import ArchqaError, CallerError
from archqa.evaluation.scoring import built_in_metric_names, metric_names
from archqa.llm.model import OfferedModel
from archqa.llm.prices import listed_prices
from archqa.llm.prompts import default_prompts
from archqa.runs.event_loop import run_sync
from archqa.runs.export import formats
from archqa.runs.model_server import list_models
from archqa.runs.run import Run
from archqa.safety.text import printable
from archqa.settings import BACKENDS
from archqa.settings.catalogue import SettingDescription, describe_settings
from archqa.tasks import pipelines, registry
from archqa.tasks.pipeline import Pipeline
from archqa.tasks.settings import use_all_plug_ins


def command(
    kind: Annotated[str, typer.Argument(help="What to list; without it, the kinds.")] = "kinds",
    pipeline: Annotated[
        str | None, typer.Option(help="Only the settings that this pipeline uses.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="The server whose models are listed.")
    ] = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: ConfigOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the server's models as one JSON object.")
    ] = False,
) -> None:
    """List pipelines, tasks, agents, backends, prompts, metrics, formats, prices, settings, runs or
    the server's models.

    Of what plug-ins can add, the column "from" says where each comes from.

    Examples:
      archqa list pipelines
      archqa list models --base-url http://127.0.0.1:8000/v1
    """
    if kind == "kinds":
        console.print("\n".join(KINDS))
        return
    if kind not in KINDS:
        raise unknown_name("kind of list", kind, KINDS)
    if pipeline is not None and kind != "settings":
        raise CallerError("--pipeline narrows settings alone: archqa list settings --pipeline dmis")
    if base_url is not None and kind != "models":
        raise CallerError("--base-url is for models alone: archqa list models --base-url URL")
    if kind == "models":
        models = _models(base_url, config, allow_plain_http)
        _print_models(models, as_json=as_json)
        return
    if as_json:
        raise CallerError("--json is for models alone: archqa list models --json")
    lists: dict[str, Callable[[], Iterable[str]]] = {
        **_LISTS,
        "settings": lambda: _settings(pipeline),
    }
    for line in lists[kind]():
        console.print(line)


def _pipelines() -> Iterator[str]:
    """Yield the pipelines below the tasks that they do; tasks with the same ones together."""
    built_in = pipelines.built_in_names()
    tasks_of: dict[tuple[Pipeline, ...], list[str]] = {}
    for name in registry.names():
        tasks_of.setdefault(pipelines.for_task(name), []).append(name)
    rows = []
    for group, names in tasks_of.items():
        rows.append(("for " + ", ".join(names), "", ""))
        for pipeline in group:
            origin = _origin("pipelines", pipeline.name, built_in)
            rows.append((f"  {pipeline.name}", origin, pipeline.summary))
    yield from _table("pipeline", rows)
    _print_conflicts("pipelines", built_in)


def _tasks() -> Iterator[str]:
    built_in = list(filter(registry.is_registered, registry.names()))
    rows = []
    for task in registry.all_tasks():
        rows.append((task.name, _origin("tasks", task.name, built_in), task.title))
    yield from _table("task", rows)
    _print_conflicts("tasks", built_in)


def _agents() -> Iterator[str]:
    rows = [(name, _origin("agents", name, AGENT_NAMES), "") for name in agent_names()]
    yield from _table("agent", rows)
    _print_conflicts("agents", AGENT_NAMES)


def _metrics() -> Iterator[str]:
    built_in = built_in_metric_names()
    rows = [(name, _origin("metrics", name, built_in), "") for name in metric_names()]
    yield from _table("metric", rows)
    _print_conflicts("metrics", built_in)


def _backends() -> Iterator[str]:
    rows = [
        ("model", plug_ins.BUILT_IN, "a model server (--model, --base-url)"),
        ("embedded", plug_ins.BUILT_IN, "the engine inside archqa, or the grammar of questions"),
    ]
    for plug_in in plug_ins.installed("backends", BACKENDS):
        rows.append((plug_in.name, plug_in.origin, plug_in.target))
    yield from _table("backend", rows)
    _print_conflicts("backends", BACKENDS)


def _origin(kind: plug_ins.Kind, name: str, built_in: Collection[str]) -> str:
    """`archqa`, or the distribution of the plug-in with its version."""
    plug_in = plug_ins.find(kind, name, built_in)
    return plug_ins.BUILT_IN if plug_in is None else plug_in.origin


def _table(name: str, rows: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Lines with the columns name, from, and what it is."""
    table = [(name, "from", ""), *rows]
    first = max(len(row[0]) for row in table)
    second = max(len(row[1]) for row in table)
    for row in table:
        yield printable(f"{row[0]:{first}}  {row[1]:{second}}  {row[2]}".rstrip())


def _print_conflicts(kind: plug_ins.Kind, built_in: Collection[str]) -> None:
    for sentence in plug_ins.conflicts(kind, built_in):
        print_notice(sentence)


def _prompts() -> Iterator[str]:
    prompts = default_prompts()
    for name in prompts.names():
        yield f"{name:26} sha256 {prompts.digest(name)[:12]}"


def _prices() -> Iterator[str]:
    for model, price in listed_prices().items():
        dollars = (
            f"${price.prompt:g} in, ${price.cached:g} cached, "
            f"${price.completion:g} out per million tokens"
        )
        yield f"{model:14} {dollars}: {price.origin}"


def _settings(pipeline: str | None = None) -> Iterable[str]:
    """Describe all settings, or those that a pipeline uses under their names for that pipeline."""
    use_all_plug_ins()
    settings = describe_settings()
    if pipeline is not None:
        settings = [
            setting._replace(name=setting.name.replace("<name>", pipeline))
            for setting in settings
            if pipeline in setting.owners
        ]
    if not settings:
        raise _no_settings(pipeline)
    return [_setting_line(setting) for setting in settings]


def _no_settings(pipeline: str | None) -> CallerError:
    """The error for a name that no pipeline has, or one of a pipeline without settings."""
    names = list(dict.fromkeys(known.name for known in pipelines.all_pipelines()))
    if pipeline in names:
        return CallerError(f"{pipeline} has no settings of its own.\nLeave --pipeline out.")
    return unknown_name("pipeline", pipeline, names)


def _setting_line(setting: SettingDescription) -> str:
    line = setting.name
    if setting.short_name:
        line += f" ({setting.short_name})"
    line += f": {setting.type}"
    if setting.default:
        line += f" [default: {setting.default}]"
    line += f". {setting.description}"
    if setting.owners != ("run",):
        line += f" (of {', '.join(setting.owners)})"
    return line


def _runs() -> Iterator[str]:
    """Describe each run; a damaged one by what is wrong with it."""
    for path in sorted(Path("runs").glob("*/run.json")):
        try:
            yield _run_line(Run.open(path.parent))
        except (ArchqaError, OSError) as error:
            yield f"{path.parent}  damaged: {printable(str(error).splitlines()[0])}"


def _run_line(run: Run) -> str:
    ended = len(run.folder.records())
    progress = f"{ended} of {len(run.manifest.case_ids)} cases"
    return f"{run.path}  {run.manifest.status.value}  {progress}"


def _models(
    base_url: str | None, config: Path | None, allow_plain_http: bool | None
) -> list[OfferedModel]:
    """Ask the server for its models. Raises `CallerError` if none is named, and `ModelError`."""
    options = {"base_url": base_url, "allow_plain_http": allow_plain_http}
    settings = command_settings(config, options)
    if not settings.has_model:
        raise CallerError(
            "It is not said which server's models to list.\n"
            "Add --base-url URL, or set ARCHQA_BASE_URL "
            "(OPENAI_API_KEY or OPENAI_BASE_URL alone sends nothing).\n" + "\n".join(HOW_TO_START)
        )
    return run_sync(list_models(settings))


def _print_models(models: list[OfferedModel], *, as_json: bool) -> None:
    if as_json:
        print_json({"models": [model_json(model) for model in models]})
        return
    for line in model_lines(models):
        console.print(line)


_LISTS: dict[str, Callable[[], Iterable[str]]] = {
    "pipelines": _pipelines,
    "tasks": _tasks,
    "agents": _agents,
    "backends": _backends,
    "prompts": _prompts,
    "metrics": _metrics,
    "formats": formats,
    "prices": _prices,
    "runs": _runs,
}
KINDS = (*_LISTS, "settings", "models")
"""What can be listed."""
