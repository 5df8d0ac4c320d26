"""Makes the table of `archqa.cli.completion` from the commands themselves."""

import json
from collections.abc import Iterable
from enum import EnumType
from typing import Any

from archqa import tasks
from archqa.agents.registry import AGENT_NAMES
from archqa.cli.completion import TABLE
from archqa.cli.lazy import LazyCommand
from archqa.cli.listing import KINDS
from archqa.cli.main import COMMANDS
from archqa.evaluation.comparison import METHODS
from archqa.evaluation.scoring import metric_names
from archqa.fhir.profile import PROFILES
from archqa.runs.export import formats
from archqa.tasks import pipelines

_KIND_OF_VALUE = {
    "--task": "tasks",
    "--pipeline": "pipelines",
    "--metric": "metrics",
    "--profile": "profiles",
    "--agent": "agents",
    "--method": "methods",
    "--grading": "gradings",
    "--operating-point": "operating_points",
    "--runner": "runners",
    "kind": "kinds",
}
"""An option or argument, and the names that it takes."""


def make_table() -> dict[str, Any]:
    """Return the table of all commands; it imports each of them."""
    commands = {entry.name: _described(LazyCommand(entry).load(), entry.help) for entry in COMMANDS}
    return {"commands": commands, "names": _names()}


def write_table() -> None:
    """Replace the table."""
    text = json.dumps(make_table(), ensure_ascii=False, indent=1)
    TABLE.write_text(f"{text}\n", encoding="utf-8")


def _names() -> dict[str, list[str]]:
    pipeline_names = dict.fromkeys(pipeline.name for pipeline in pipelines.all_pipelines())
    return {
        "tasks": list(tasks.names()),
        "pipelines": list(pipeline_names),
        "metrics": metric_names(),
        "formats": list(formats()),
        "profiles": list(PROFILES),
        "agents": list(AGENT_NAMES),
        "methods": list(METHODS),
        "gradings": ["official", "clinical", "both"],
        "operating_points": ["f1", "precision", "recall"],
        "runners": ["local", "ray"],
        "kinds": list(KINDS),
    }


def _described(command: Any, line: str) -> dict[str, Any]:
    if hasattr(command, "commands"):
        below = {}
        for name, subcommand in sorted(command.commands.items()):
            below[name] = _described(subcommand, _first_line(subcommand.help))
        return {"help": line, "commands": below}
    parameters = [
        _parameter(parameter)
        for parameter in command.params
        if not getattr(parameter, "hidden", False)
    ]
    return {"help": line, "parameters": parameters}


def _parameter(parameter: Any) -> dict[str, Any]:
    is_option = parameter.param_type_name == "option"
    names = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.name]
    return {
        "names": names,
        "help": _first_line(getattr(parameter, "help", "")),
        "flag": bool(getattr(parameter, "is_flag", False)),
        "many": bool(parameter.multiple) or parameter.nargs == -1,
        "values": _values(parameter, names),
    }


def _values(parameter: Any, names: Iterable[str]) -> str | list[str]:
    """Return the values that a parameter takes, or the kind of their names; empty for others."""
    if isinstance(parameter.type_descriptor.annotation, EnumType):
        choices: Iterable[Any] = parameter.type_descriptor.annotation
        return [str(choice.value) for choice in choices]
    for name in names:
        if name in _KIND_OF_VALUE:
            return _KIND_OF_VALUE[name]
        if name == "--format":
            return "formats"
    is_run = "RUN" in (parameter.metavar or "")
    return "runs" if is_run and parameter.param_type_name == "argument" else ""


def _first_line(text: str | None) -> str:
    return " ".join((text or "").strip().split("\n\n")[0].split())
