"""Loads settings: what was typed, then the environment (`ARCHQA_…`), then a TOML file, then the defaults."""

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ValidationError

from archqa.agents.registry import AGENT_NAMES
from archqa.errors import CallerError, InputError
from archqa.settings.model import Settings
from archqa.settings.names import is_pipeline_setting, merge, nest, short_names, typed_names
from archqa.tasks.settings import sections_model


def load_settings(
    config: Path | None = None,
    typed: Mapping[str, Any] | None = None,
    assignments: Iterable[str] = (),
) -> Settings:
    """The settings of a run. Names may be short (`labels`) or full (`pipelines.panel.labels`).

    `typed` are values by name, where None means not typed; `assignments` are texts such as `agents.context.model=o3`,
    the last of which wins. Raises `InputError` for a malformed file, `CallerError` for all invalid settings at once.
    """
    layers = [{name: value for name, value in (typed or {}).items() if value is not None}]
    layers += [_parse(assignment) for assignment in assignments]
    values: dict[str, Any] = {}
    names: set[str] = set()
    for layer in layers:
        merge(values, nest(layer))
        names.update(typed_names(layer))
    if config is not None and not config.is_file():
        raise InputError(
            config, [": no such configuration file."], "Name an existing TOML file with --config."
        )
    settings = _build(config or default_config_path(), values)
    settings._typed = frozenset(names)
    return settings


def default_config_path() -> Path | None:
    """`archqa.toml` here, else `config.toml` in the user's configuration folder, else None."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    for path in (Path("archqa.toml"), home / "archqa" / "config.toml"):
        if path.is_file():
            return path
    return None


def _build(path: Path | None, values: dict[str, Any]) -> Settings:
    annotated = {"config_path": ClassVar[Path | None]}
    namespace = {"__module__": __name__, "__annotations__": annotated, "config_path": path}
    configured = type("Settings", (Settings,), namespace)
    try:
        settings = configured(**values)
    except ValidationError as error:
        raise _invalid(_mistakes(error), path) from None
    assert isinstance(settings, Settings)
    mistakes = _unknown_agents(settings)
    if mistakes:
        raise _invalid(mistakes, path)
    return settings


def _invalid(mistakes: Iterable[str], path: Path | None) -> CallerError:
    lines = ["Invalid settings:", *(f"  {mistake}" for mistake in mistakes)]
    if path:
        lines.append(f"Settings come from the command, ARCHQA_… variables and {path}.")
    return CallerError("\n".join(lines))


def _unknown_agents(settings: Settings) -> list[str]:
    unknown = sorted(set(settings.agents) - set(AGENT_NAMES))
    return [
        f"agents.{agent}: There is no agent {agent}{_suggestion(agent, AGENT_NAMES)}"
        for agent in unknown
    ]


def _parse(assignment: str) -> dict[str, Any]:
    """`a.b=c` as a nested value. Texts such as on, off and 3 are read by the setting's type."""
    name, equals, text = assignment.partition("=")
    if not equals or not name.strip():
        raise CallerError(
            f"--set {assignment!r} is not key=value.\nFor example: --set labels=multiclass"
        )
    value: Any = None if text.strip().lower() == "none" else text.strip()
    for part in reversed(name.strip().split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def _mistakes(error: ValidationError) -> list[str]:
    """One line a mistake; a short name that stands for several settings is named once."""
    lines = {}
    for mistake in error.errors(include_url=False, include_input=False, include_context=False):
        path = tuple(str(step) for step in mistake["loc"])
        name = _shown(path)
        message = mistake["msg"]
        if mistake["type"] == "extra_forbidden":
            message = f"there is no such setting{_suggestion(path[-1], _siblings(path[:-1]))}"
        lines[name, message] = f"{name}: {message}"
    return list(lines.values())


def _shown(path: tuple[str, ...]) -> str:
    """The short name where there is one: it is what most people type."""
    is_section = len(path) == 3 and path[0] == "pipelines"
    return path[2] if is_section and is_pipeline_setting(path[2]) else ".".join(path)


def _siblings(path: tuple[str, ...]) -> list[str]:
    """The names that may stand below a path."""
    model: Any = Settings
    if path[:1] == ("pipelines",):
        model, path = sections_model(), path[1:]
    for step in path:
        annotation = model.model_fields[step].annotation if _is_model(model) else None
        candidates = (annotation, *get_args(annotation), *get_args(model))
        models = [candidate for candidate in candidates if _is_model(candidate)]
        if not models:
            return []
        model = models[0]
    names = list(model.model_fields)
    return [*names, *short_names()] if model is Settings else names


def _is_model(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)


def _suggestion(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]}?" if near else "."
