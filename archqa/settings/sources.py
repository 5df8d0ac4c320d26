"""Where the values of settings come from, and their names.

    full name                           short name
    limits.jobs                         jobs
    cache.dir                           cache_dir
    pipelines.dmis.screen               screen

The short name of a pipeline's setting stands for that setting of every pipeline that has it.
"""

import json
import os
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from archqa.errors import InputError
from archqa.tasks.settings import pipeline_sections, use_all_plug_ins, use_plug_in

SettingPath = tuple[str, ...]
"""A full name in its parts: `("limits", "jobs")`."""

RUN_SHORT_NAMES: dict[str, SettingPath] = {
    "jobs": ("limits", "jobs"),
    "requests_per_minute": ("limits", "requests_per_minute"),
    "tokens_per_minute": ("limits", "tokens_per_minute"),
    "max_cost": ("limits", "max_cost"),
    "timeout": ("limits", "timeout"),
    "tries": ("retries", "tries"),
    "first_wait": ("retries", "first_wait"),
    "cache": ("cache", "enabled"),
    "cache_dir": ("cache", "dir"),
    "cache_gib": ("cache", "gib"),
    "cache_url": ("cache", "url"),
    "ray_address": ("ray", "address"),
    "workers": ("ray", "workers"),
}
"""Short names of the run's own nested settings."""

_PREFIX = "ARCHQA_"

_SHARED_VARIABLES = {"OPENAI_BASE_URL": "base_url", "OPENAI_API_KEY": "api_key"}
"""Variables of OpenAI's own Python package, which other programs need too."""


def full_names(short_name: str) -> tuple[SettingPath, ...]:
    """Return the full names that a short name stands for; none if it is no short name."""
    if short_name in RUN_SHORT_NAMES:
        return (RUN_SHORT_NAMES[short_name],)
    names = []
    for pipeline, section in pipeline_sections().items():
        if short_name in section.model_fields:
            names.append(("pipelines", pipeline, short_name))
    return tuple(names)


def short_names() -> list[str]:
    """Every short name."""
    names = dict.fromkeys(RUN_SHORT_NAMES)
    for section in pipeline_sections().values():
        names.update(dict.fromkeys(section.model_fields))
    return list(names)


def is_pipeline_setting(name: str) -> bool:
    """Whether this is the short name of a pipeline's setting."""
    return any(name in section.model_fields for section in pipeline_sections().values())


def typed_names(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of settings that only some pipelines use.

    For example `labels`, `pipelines.dmis.labels` and `agents.decision`; `pipeline`, which
    questions about notes do not use; and `backend`, which runs agents where there are some.
    """
    for name, value in values.items():
        if name == "pipelines" and isinstance(value, Mapping):
            for pipeline, section in value.items():
                for setting in section:
                    yield f"pipelines.{_pipeline_name(pipeline)}.{setting}"
        elif name == "agents" and isinstance(value, Mapping):
            for agent in value:
                yield f"agents.{agent}"
        elif name in ("pipeline", "backend") or is_pipeline_setting(name):
            yield name


def nest(values: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the same values under their full names. A full name takes precedence over a short one.

    `known` are the run's own settings and sections. Names that do not exist stay as they are, for
    validation to report.
    """
    nested: dict[str, Any] = {}
    in_full: dict[str, Any] = {}
    for name, value in values.items():
        # `cache` is a section as well: `cache=off` is short for `cache.enabled=off`.
        is_section = isinstance(value, Mapping) or hasattr(value, "model_fields")
        is_short_name = name not in known or (name == "cache" and not is_section)
        paths = full_names(name) if is_short_name else ()
        for path in paths:
            assign(nested, path, value)
        if name == "pipelines" and isinstance(value, Mapping):
            in_full[name] = {
                _pipeline_name(pipeline): own for pipeline, own in value.items()
            }
        elif not paths:
            in_full[name] = value
    merge(nested, in_full)
    return nested


def merge(target: dict[str, Any], changes: Mapping[str, Any]) -> None:
    """Write nested values over others, key by key."""
    for name, value in changes.items():
        current = target.get(name)
        if isinstance(current, dict) and isinstance(value, Mapping):
            merge(current, value)
        elif isinstance(value, Mapping):
            target[name] = {}
            merge(target[name], value)
        else:
            target[name] = value


def assign(target: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Write a value under its full name; a section and a single value never replace each other."""
    *sections, name = path
    for section in sections:
        inner = target.setdefault(section, {})
        if not isinstance(inner, dict):
            return
        target = inner
    if isinstance(target.get(name), Mapping) and not isinstance(value, Mapping):
        return
    target[name] = value


def _pipeline_name(name: str) -> str:
    """Return the name with hyphens if there is such a pipeline.

    Environment variables have no hyphens: `multi_turn_retriever` is `multi-turn-retriever`.
    """
    hyphenated = name.replace("_", "-")
    return hyphenated if hyphenated in pipeline_sections() else name


def use_plug_ins_named_in(values: Mapping[str, Any], known: Collection[str]) -> None:
    """Add the settings of the plug-ins that some values name; `known` are archqa's own settings.

    A plug-in's pipeline, which is imported then, is named by `pipeline`; the setting of a pipeline
    that archqa does not have may be any plug-in's. Raises `PlugInError` for a pipeline that cannot
    be used.
    """
    pipeline = values.get("pipeline")
    if isinstance(pipeline, str):
        use_plug_in(pipeline)
    unknown = values.keys() - set(known)
    names_unknown = bool(unknown) and bool(unknown - set(short_names()))
    sections = values.get("pipelines")
    if isinstance(sections, Mapping):
        of_archqa = {name.replace("_", "-") for name in pipeline_sections()}
        names_unknown |= not {name.replace("_", "-") for name in sections} <= of_archqa
    if names_unknown:
        use_all_plug_ins()


def environment_values(names: Collection[str]) -> dict[str, Any]:
    """Return the settings in variables such as `ARCHQA_JOBS` and `ARCHQA_AGENTS__CONTEXT__MODEL`.

    `names` are the full names of settings outside sections. Other programs may have variables with
    this prefix: those that name no setting are ignored.
    """
    values: dict[str, Any] = {}
    for variable, text in os.environ.items():
        if not variable.upper().startswith(_PREFIX):
            continue
        path = variable[len(_PREFIX) :].lower().split("__")
        if path[0] not in names and not full_names(path[0]):
            continue
        value: Any = text
        # Lists and tables are JSON; anything else is read by the setting's type.
        if text.startswith(("[", "{")):
            try:
                value = json.loads(text)
            except ValueError:
                value = text
        assign(values, path, value)
    return values


def shared_values() -> dict[str, str]:
    """Return the settings in `OPENAI_BASE_URL` and `OPENAI_API_KEY`; an empty one counts as unset.

    They are no request to send anything: they apply once a model server was asked for by other
    means, and only where no other value is set.
    """
    return {
        _SHARED_VARIABLES[name]: os.environ[name] for name in shared_variables_set()
    }


def shared_variables_set() -> list[str]:
    """Return the names of these variables that are set."""
    return [variable for variable in _SHARED_VARIABLES if os.environ.get(variable)]


def read_toml(path: Path) -> dict[str, Any]:
    """A file of settings. Raises `InputError` if it is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        mistake = f": {error}"
    except RecursionError:
        mistake = ": is nested too deeply."
    raise InputError(
        path, [mistake], "The file must be TOML; `archqa config show` prints one."
    )
