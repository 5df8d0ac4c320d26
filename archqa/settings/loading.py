"""Loads settings: typed values, then `ARCHQA_…` variables, TOML files, and the defaults.

Whoever hands over a folder of data can put an `archqa.toml` into it. That file may therefore set
what only changes how a run works, and never where text, keys or queries go, what is run on other
machines, what is written, or which files outside the folder are read. All of that is for the user's
own configuration and for a file named with `--config`.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError

from archqa.agents.registry import AGENT_NAMES, agent_names
from archqa.core.near_misses import near_misses
from archqa.errors import CallerError, InputError, without_suppressed_causes
from archqa.safety.arguments import as_optional_path
from archqa.safety.text import printable
from archqa.settings.model import Settings, user_folder
from archqa.settings.sources import (
    SettingPath,
    assign,
    environment_values,
    is_pipeline_setting,
    merge,
    nest,
    read_toml,
    short_names,
    typed_names,
    use_plug_ins_named_in,
)
from archqa.tasks.settings import pipeline_sections, sections_model

_FOLDER_FILE = Path("archqa.toml")

_MAX_NAMES_SHOWN = 8

_CHOICE = re.compile(r"'([^']*)'")
"""One of the values that pydantic names for a setting with few values."""


class SettingsFile(NamedTuple):
    """A file of settings: its nested values that apply, and those that do not, by their path."""

    path: Path
    values: dict[str, Any]
    ignored: Mapping[SettingPath, Any] = MappingProxyType({})


def _warn(line: str) -> None:
    """Log a warning: unless logging is set up, one line on stderr."""
    logging.getLogger("archqa").warning(line)


@without_suppressed_causes
def load_settings(
    config: Path | None = None,
    typed: Mapping[str, Any] | None = None,
    assignments: Iterable[str] = (),
    on_ignored: Callable[[str], None] = _warn,
) -> Settings:
    """Return the settings of a run. Names are short (`labels`) or full (`pipelines.dmis.labels`).

    `typed` are values by name, where None means not typed; `assignments` are texts such as
    `agents.context.model=o3`, the last of which wins. `on_ignored` is called with one line about
    settings in the current folder's file that have no effect. Raises `InputError` for a malformed
    file, `CallerError` for all invalid settings at once.
    """
    layers = [
        {name: value for name, value in (typed or {}).items() if value is not None}
    ]
    layers += [_parse(assignment) for assignment in assignments]
    for layer in layers:
        use_plug_ins_named_in(layer, Settings.model_fields)
    typed_values: dict[str, Any] = {}
    names: set[str] = set()
    for layer in layers:
        merge(typed_values, nest(layer, Settings.model_fields))
        names.update(typed_names(layer))
    files = settings_files(as_optional_path(config, "The settings file"))
    values: dict[str, Any] = {}
    for file in files:
        merge(values, file.values)
    merge(
        values, nest(environment_values(Settings.model_fields), Settings.model_fields)
    )
    merge(values, typed_values)
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise _invalid(_mistakes(error), files) from None
    unknown_agents = []
    for agent in sorted(settings.agents):
        if agent not in AGENT_NAMES and agent not in agent_names():
            suggestion = _suggestion(agent, agent_names())
            unknown_agents.append(
                f"agents.{agent}: There is no agent {agent}{suggestion}"
            )
    if unknown_agents:
        raise _invalid(unknown_agents, files)
    settings._typed = frozenset(names)
    for file in files:
        _report_ignored(file, settings, on_ignored)
    return settings


def settings_files(config: Path | None) -> list[SettingsFile]:
    """Read the files that settings come from; later ones take precedence.

    That is `config` alone, else the harmless settings of `archqa.toml` in the current folder and
    then the user's `archqa/config.toml`: whoever handed over the folder must not lift a limit that
    the user has set. Raises `InputError` for a file that is absent or malformed.
    """
    if config is not None:
        if not config.is_file():
            mistake = ": no such configuration file."
            raise InputError(
                config, [mistake], "Name an existing TOML file with --config."
            )
        return [SettingsFile(config, _nested(config))]
    files = []
    if _FOLDER_FILE.is_file():
        known = frozenset(Settings.model_fields)
        harmless, ignored = split_settings(_nested(_FOLDER_FILE), known, Path())
        files.append(SettingsFile(_FOLDER_FILE, harmless, ignored))
    user_file = user_folder("XDG_CONFIG_HOME", ".config") / "config.toml"
    if user_file.is_file():
        files.append(SettingsFile(user_file, _nested(user_file)))
    return files


def _nested(path: Path) -> dict[str, Any]:
    """The settings in a file under their full names, those of plug-ins too."""
    values = read_toml(path)
    use_plug_ins_named_in(values, Settings.model_fields)
    return nest(values, Settings.model_fields)


def _report_ignored(
    file: SettingsFile, settings: Settings, on_ignored: Callable[[str], None]
) -> None:
    """Name the settings of a file that would have changed the settings in force."""
    in_force = settings.model_dump(mode="json")
    names = set()
    for path, value in file.ignored.items():
        if value != value_at(in_force, path):
            names.add(_printable_line(".".join(path)))
    if not names:
        return
    first_names = ", ".join(sorted(names)[:_MAX_NAMES_SHOWN])
    hidden = len(names) - _MAX_NAMES_SHOWN
    if hidden > 0:
        first_names += f" and {hidden} more"
    on_ignored(
        f"{file.path} in the current folder may not set {first_names}: ignored. "
        f"If the file is yours, name it: --config {file.path}"
    )


def _parse(assignment: str) -> dict[str, Any]:
    """Return `a.b=c` as a nested value. The setting's type later reads texts such as on and 3."""
    name, equals, text = assignment.partition("=")
    name = name.strip()
    text = text.strip()
    if not equals or not name:
        raise CallerError(
            "A --set is not key=value.\nFor example: --set labels=multiclass"
        )
    *sections, last_name = name.split(".")
    nested: dict[str, Any] = {last_name: None if text.lower() == "none" else text}
    for section in reversed(sections):
        nested = {section: nested}
    return nested


def _invalid(mistakes: Iterable[str], files: Sequence[SettingsFile]) -> CallerError:
    lines = ["Invalid settings:"]
    lines += [f"  {_printable_line(mistake)}" for mistake in mistakes]
    if files:
        paths = " and ".join(str(file.path) for file in files)
        lines.append(f"Settings come from the command, ARCHQA_… variables and {paths}.")
    return CallerError("\n".join(lines))


def _printable_line(text: str) -> str:
    """Names in a file may come from anybody: they write one line, and no escape sequence."""
    return printable(text).replace("\n", "\\n")


def _mistakes(error: ValidationError) -> list[str]:
    """Return one line a mistake; a short name that stands for several settings is named once."""
    lines = []
    for mistake in error.errors(include_url=False):
        path = tuple(str(step) for step in mistake["loc"])
        message = mistake["msg"].removeprefix("Value error, ")
        if mistake["type"] == "literal_error":
            choices = _CHOICE.findall(mistake["ctx"]["expected"])
            message += _suggestion(str(mistake["input"]), choices).removesuffix(".")
        if mistake["type"] == "extra_forbidden":
            *parents, name = path
            message = f"there is no such setting{_suggestion(name, _siblings(parents))}"
        # The short name, where there is one, is what most people type.
        is_section = len(path) == 3 and path[0] == "pipelines"
        has_short_name = is_section and is_pipeline_setting(path[2])
        lines.append(f"{path[2] if has_short_name else '.'.join(path)}: {message}")
    return list(dict.fromkeys(lines))


def _siblings(path: Sequence[str]) -> list[str]:
    """Return the names that may be below a path."""
    if not path:
        return [*Settings.model_fields, *short_names()]
    annotation: Any = Settings
    if path[0] == "pipelines":
        annotation, path = sections_model(), path[1:]
    for step in path:
        if get_origin(annotation) is dict:
            _, annotation = get_args(annotation)
            continue
        model = _model_in(annotation)
        field = model.model_fields.get(step) if model else None
        annotation = field.annotation if field else None
    model = _model_in(annotation)
    return list(model.model_fields) if model else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation is or, as an optional one, has in it."""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _suggestion(name: str, names: Iterable[str]) -> str:
    similar = near_misses(name, names)
    return f"; did you mean {similar[0]}?" if similar else "."


_HARMLESS = frozenset({"pipeline", "limits", "retries"})
"""Settings and whole sections that the folder's file may set. Prices of zero would undo a limit of
cost."""

_HARMLESS_IN_SECTIONS = {"cache": frozenset({"enabled"}), "ray": frozenset({"workers"})}

_HARMFUL_OF_AGENTS = frozenset({"model", "base_url", "key_variable"})

_HARMFUL_OF_PIPELINES = frozenset({"writes"})


class SplitSettings(NamedTuple):
    """The settings of a file that apply, nested, and those that do not, by their path."""

    harmless: dict[str, Any]
    ignored: dict[SettingPath, Any]


def split_settings(
    values: Mapping[str, Any], known: frozenset[str], folder: Path
) -> SplitSettings:
    """Split nested settings of the file in a folder. `known` are the names of all settings.

    Names that do not exist count as harmless: validation reports them.
    """
    harmless: dict[str, Any] = {}
    ignored: dict[SettingPath, Any] = {}
    for path, value in _leaves(values):
        if path[0] not in known or _is_harmless(path, value, folder):
            assign(harmless, path, value)
        else:
            ignored[path] = value
    return SplitSettings(harmless, ignored)


def value_at(values: Any, path: SettingPath) -> Any:
    """Return the value at a path of nested mappings; None if there is none."""
    for name in path:
        if not isinstance(values, Mapping):
            return None
        values = values.get(name)
    return values


def _leaves(
    values: Mapping[str, Any], parents: SettingPath = ()
) -> Iterator[tuple[SettingPath, Any]]:
    """Yield the values that are no mappings, and empty mappings, with their paths."""
    for name, value in values.items():
        path = (*parents, name)
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, path)
        else:
            yield path, value


def _is_harmless(path: SettingPath, value: Any, folder: Path) -> bool:
    section = path[0]
    if section in _HARMLESS:
        return True
    if section in _HARMLESS_IN_SECTIONS:
        return len(path) == 1 or path[1] in _HARMLESS_IN_SECTIONS[section]
    if section in ("agents", "pipelines") and len(path) < 3:
        return True
    if section == "agents":
        # `backend="embedded"` keeps text here; `backend="model"` would send what a person kept.
        if path[2] == "backend":
            return bool(value == "embedded")
        return path[2] not in _HARMFUL_OF_AGENTS
    if section == "pipelines":
        if path[2] in _HARMFUL_OF_PIPELINES:
            return False
        return not _names_a_file(path[1], path[2]) or _is_inside(value, folder)
    if section in ("record", "answer_key"):
        return _is_inside(value, folder)
    return False


def _names_a_file(pipeline: str, name: str) -> bool:
    """Whether a pipeline's setting is a path, as `pipelines.paper.functions` is."""
    section = pipeline_sections().get(pipeline)
    if section is None or name not in section.model_fields:
        return False
    annotation = section.model_fields[name].annotation
    return Path in (annotation, *get_args(annotation))


def _is_inside(value: Any, folder: Path) -> bool:
    """Whether a value names a file inside the folder, links followed, and no server."""
    if not isinstance(value, str) or "://" in value or "\0" in value:
        return False
    return (folder / value).resolve().is_relative_to(folder.resolve())
