"""`archqa list KIND`: the names that options and settings take."""

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from archqa import plug_ins
from archqa.agents.registry import AGENT_NAMES, agent_names
from archqa.cli.console import console, print_json, print_notice
from archqa.cli.model_servers import HOW_TO_START, model_json, model_lines
from archqa.cli.options import AllowPlainHttpOption, ConfigOption, command_settings
from archqa.core.near_misses import unknown_name
from archqa.errors import ArchqaError, CallerError
from archqa.evaluation.scoring import built_in_metric_names, metric_names
from archqa.llm.prices import listed_prices
from archqa.llm.prompts import default_prompts
from archqa.runs.event_loop import run_sync
from archqa.runs.export import formats
from archqa.runs.model_server import list_models
from archqa.runs.run import Run
from archqa.safety.text import printable
from archqa.settings import BACKENDS
from archqa.settings.catalogue import describe_settings
from archqa.tasks import pipelines, registry
from archqa.tasks.pipeline import Pipeline
from archqa.tasks.settings import use_all_plug_ins


def command(
    kind: Annotated[
        str, Argument(help="What to list; without it, the kinds.")
    ] = "kinds",
    pipeline: Annotated[
        str | None, Option(help="Only the settings that this pipeline uses.")
    ] = None,
    base_url: Annotated[
        str | None,
        Option("--base-url", help="The server whose models are listed."),
    ] = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: ConfigOption = None,
    as_json: Annotated[
        bool,
        Option("--json", help="Print the server's models as one JSON object."),
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
        raise CallerError(
            "--pipeline narrows settings alone: archqa list settings --pipeline dmis"
        )
    if base_url is not None and kind != "models":
        raise CallerError(
            "--base-url is for models alone: archqa list models --base-url URL"
        )
    if kind == "models":
        settings = command_settings(
            config, base_url=base_url, allow_plain_http=allow_plain_http
        )
        if not settings.has_model:
            raise CallerError(
                "It is not said which server's models to list.\n"
                "Add --base-url URL, or set ARCHQA_BASE_URL "
                "(OPENAI_API_KEY or OPENAI_BASE_URL alone sends nothing).\n"
                + "\n".join(HOW_TO_START)
            )
        models = run_sync(list_models(settings))
        if as_json:
            print_json({"models": [model_json(model) for model in models]})
            return
        lines: Iterable[str] = model_lines(models)
    elif as_json:
        raise CallerError("--json is for models alone: archqa list models --json")
    else:
        lines = _settings(pipeline) if kind == "settings" else _LISTS[kind]()
    for line in lines:
        console.print(line)


def _pipelines() -> Iterator[str]:
    """Yield the pipelines below the tasks that they do; tasks with the same ones together."""
    tasks_of: dict[tuple[Pipeline, ...], list[str]] = {}
    for name in registry.names():
        tasks_of.setdefault(pipelines.for_task(name), []).append(name)
    rows = []
    for group, names in tasks_of.items():
        rows.append(("for " + ", ".join(names), "", ""))
        for pipeline in group:
            rows.append((f"  {pipeline.name}", pipeline.name, pipeline.summary))
    return _table("pipelines", rows, pipelines.built_in_names())


def _tasks() -> Iterator[str]:
    rows = [(task.name, task.name, task.title) for task in registry.all_tasks()]
    return _table("tasks", rows, list(filter(registry.is_registered, registry.names())))


def _agents() -> Iterator[str]:
    return _table("agents", [(name, name, "") for name in agent_names()], AGENT_NAMES)


def _metrics() -> Iterator[str]:
    return _table(
        "metrics",
        [(name, name, "") for name in metric_names()],
        built_in_metric_names(),
    )


def _backends() -> Iterator[str]:
    rows = [
        ("model", "model", "a model server (--model, --base-url)"),
        (
            "embedded",
            "embedded",
            "the engine inside archqa, or the grammar of questions",
        ),
    ]
    for plug_in in plug_ins.installed("backends", BACKENDS):
        rows.append((plug_in.name, plug_in.name, plug_in.target))
    return _table("backends", rows, BACKENDS)


def _table(
    kind: plug_ins.Kind, rows: Iterable[tuple[str, str, str]], built_in: Collection[str]
) -> Iterator[str]:
    """Yield lines with a label, where the part of that name comes from, and what it is.

    That is `archqa`, or the distribution of the plug-in with its version.
    """
    table = [(kind.removesuffix("s"), "from", "")]
    for label, name, description in rows:
        origin = ""
        if name:
            plug_in = plug_ins.find(kind, name, built_in)
            origin = plug_ins.BUILT_IN if plug_in is None else plug_in.origin
        table.append((label, origin, description))
    first = max(len(row[0]) for row in table)
    second = max(len(row[1]) for row in table)
    for row in table:
        yield printable(f"{row[0]:{first}}  {row[1]:{second}}  {row[2]}".rstrip())
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


def _settings(pipeline: str | None = None) -> Iterator[str]:
    """Describe all settings, or those that a pipeline uses under their names for that pipeline."""
    use_all_plug_ins()
    settings = []
    for setting in describe_settings():
        if pipeline is None:
            settings.append(setting)
        elif pipeline in setting.owners:
            settings.append(
                setting._replace(name=setting.name.replace("<name>", pipeline))
            )
    if not settings:
        names = list(dict.fromkeys(known.name for known in pipelines.all_pipelines()))
        if pipeline not in names:
            raise unknown_name("pipeline", pipeline, names)
        raise CallerError(
            f"{pipeline} has no settings of its own.\nLeave --pipeline out."
        )
    for setting in settings:
        line = setting.name
        if setting.short_name:
            line += f" ({setting.short_name})"
        line += f": {setting.type}"
        if setting.default:
            line += f" [default: {setting.default}]"
        line += f". {setting.description}"
        if setting.owners != ("run",):
            line += f" (of {', '.join(setting.owners)})"
        yield line


def _runs() -> Iterator[str]:
    """Describe each run; a damaged one by what is wrong with it."""
    for path in sorted(Path("runs").glob("*/run.json")):
        try:
            run = Run.open(path.parent)
            progress = (
                f"{len(run.folder.records())} of {len(run.manifest.case_ids)} cases"
            )
            yield f"{run.path}  {run.manifest.status.value}  {progress}"
        except (ArchqaError, OSError) as error:
            yield f"{path.parent}  damaged: {printable(str(error).splitlines()[0])}"


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
