"""What `archqa.toml` in the current folder may not change.

Whoever hands over a folder of data can put that file into it. It may therefore set what only
changes how a run works, and never where text, keys or queries go, what is run on other machines,
what is written, or which files outside the folder are read. All of that is for the user's own
configuration and for a file named with `--config`.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from archqa.settings.sources import SettingPath, assign
from archqa.tasks.settings import pipeline_sections

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
