"""Loads settings: typed values, then `ARCHQA_…` variables, a TOML file, and the defaults."""

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from archqa.agents.registry import AGENT_NAMES
from archqa.errors import CallerError, InputError
from archqa.settings.model import Settings
from archqa.settings.names import is_pipeline_setting, merge, nest, short_names, typed_names
from archqa.settings.sources import environment_values, read_toml
from archqa.tasks.settings import sections_model


def load_settings(
    config: Path | None = None,
    typed: Mapping[str, Any] | None = None,
    assignments: Iterable[str] = (),
) -> Settings:
    """Return the settings of a run. Names are short (`labels`) or full (`pipelines.panel.labels`).

    `typed` are values by name, where None means not typed; `assignments` are texts such as
    `agents.context.model=o3`, the last of which wins. Raises `InputError` for a malformed file,
    `CallerError` for all invalid settings at once.
    """
    layers = [_without_none(typed or {})]
    layers += [_parse(assignment) for assignment in assignments]
    values: dict[str, Any] = {}
    names: set[str] = set()
    for layer in layers:
        merge(values, nest(layer))
        names.update(typed_names(layer))
    if config is not None and not config.is_file():
        mistake = ": no such configuration file."
        raise InputError(config, [mistake], "Name an existing TOML file with --config.")
    settings = _build(config or default_config_path(), values)
    settings._typed = frozenset(names)
    return settings


def default_config_path() -> Path | None:
    """Return `archqa.toml` here, else the user's `archqa/config.toml`, else None."""
    config_home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    for path in (Path("archqa.toml"), Path(config_home) / "archqa" / "config.toml"):
        if path.is_file():
            return path
    return None


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _build(path: Path | None, given: dict[str, Any]) -> Settings:
    """The settings of a file, with the environment's values over it and the given ones over both."""
    values: dict[str, Any] = {}
    in_file = read_toml(path) if path is not None else {}
    for layer in (in_file, environment_values(), given):
        merge(values, nest(layer))
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise _invalid(_mistakes(error), path) from None
    mistakes = _unknown_agents(settings)
    if mistakes:
        raise _invalid(mistakes, path)
    return settings


def _invalid(mistakes: Iterable[str], path: Path | None) -> CallerError:
    lines = ["Invalid settings:"]
    lines += [f"  {mistake}" for mistake in mistakes]
    if path:
        lines.append(f"Settings come from the command, ARCHQA_… variables and {path}.")
    return CallerError("\n".join(lines))


def _unknown_agents(settings: Settings) -> list[str]:
    mistakes = []
    for agent in sorted(settings.agents):
        if agent not in AGENT_NAMES:
            suggestion = _suggestion(agent, AGENT_NAMES)
            mistakes.append(f"agents.{agent}: There is no agent {agent}{suggestion}")
    return mistakes


def _parse(assignment: str) -> dict[str, Any]:
    """Return `a.b=c` as a nested value. The setting's type later reads texts such as on and 3."""
    name, equals, text = assignment.partition("=")
    name = name.strip()
    text = text.strip()
    if not equals or not name:
        raise CallerError(
            f"--set {assignment!r} is not key=value.\nFor example: --set labels=multiclass"
        )
    *sections, last_name = name.split(".")
    value = None if text.lower() == "none" else text
    nested: dict[str, Any] = {last_name: value}
    for section in reversed(sections):
        nested = {section: nested}
    return nested


def _mistakes(error: ValidationError) -> list[str]:
    """Return one line a mistake; a short name that stands for several settings is named once."""
    lines = []
    for mistake in error.errors(include_url=False, include_input=False, include_context=False):
        path = tuple(str(step) for step in mistake["loc"])
        message = mistake["msg"].removeprefix("Value error, ")
        if mistake["type"] == "extra_forbidden":
            *parents, name = path
            suggestion = _suggestion(name, _siblings(parents))
            message = f"there is no such setting{suggestion}"
        lines.append(f"{_shown(path)}: {message}")
    return list(dict.fromkeys(lines))


def _shown(path: tuple[str, ...]) -> str:
    """Return the short name where there is one: it is what most people type."""
    is_section = len(path) == 3 and path[0] == "pipelines"
    if is_section and is_pipeline_setting(path[2]):
        return path[2]
    return ".".join(path)


def _siblings(path: Sequence[str]) -> list[str]:
    """Return the names that may be below a path."""
    if not path:
        return [*Settings.model_fields, *short_names()]
    annotation: Any = Settings
    if path[0] == "pipelines":
        annotation, path = sections_model(), path[1:]
    for step in path:
        annotation = _annotation_below(annotation, step)
    model = _model_in(annotation)
    return list(model.model_fields) if model else []


def _annotation_below(annotation: Any, step: str) -> Any:
    """Return the type below one step of a path; None if there is none."""
    if get_origin(annotation) is dict:
        _, value_type = get_args(annotation)
        return value_type
    model = _model_in(annotation)
    if model is None or step not in model.model_fields:
        return None
    return model.model_fields[step].annotation


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation is or, as an optional one, has in it."""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _suggestion(name: str, names: Iterable[str]) -> str:
    close_matches = difflib.get_close_matches(name, list(names), n=1)
    if not close_matches:
        return "."
    return f"; did you mean {close_matches[0]}?"
