"""Settings from the environment and from a TOML file."""

import json
import os
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from archqa.errors import InputError
from archqa.settings.names import full_names

PREFIX = "ARCHQA_"
_SHARED_VARIABLES = {"OPENAI_BASE_URL": "base_url", "OPENAI_API_KEY": "api_key"}
"""Variables of OpenAI's own Python package, which other programs need too."""


def environment_values(names: Collection[str]) -> dict[str, Any]:
    """Return the settings in variables such as `ARCHQA_JOBS` and `ARCHQA_AGENTS__CONTEXT__MODEL`.

    `names` are the full names of settings outside sections. Other programs may have variables with
    this prefix: those that name no setting are ignored.
    """
    values: dict[str, Any] = {}
    for variable, text in os.environ.items():
        if not variable.upper().startswith(PREFIX):
            continue
        path = variable[len(PREFIX) :].lower().split("__")
        if path[0] in names or full_names(path[0]):
            _assign(values, path, _decoded(text))
    return values


def shared_values() -> dict[str, str]:
    """Return the settings in `OPENAI_BASE_URL` and `OPENAI_API_KEY`; an empty one counts as unset.

    They are no request to send anything: they apply once a model server was asked for by other
    means, and only where no other value is set.
    """
    values = {}
    for variable, name in _SHARED_VARIABLES.items():
        text = os.environ.get(variable)
        if text:
            values[name] = text
    return values


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
    raise InputError(path, [mistake], "The file must be TOML; `archqa config show` prints one.")


def _assign(values: dict[str, Any], path: list[str], value: Any) -> None:
    *sections, name = path
    for section in sections:
        inner = values.setdefault(section, {})
        if not isinstance(inner, dict):
            return
        values = inner
    if isinstance(values.get(name), Mapping) and not isinstance(value, Mapping):
        return
    values[name] = value


def _decoded(text: str) -> Any:
    """Lists and tables are JSON; anything else is read by the setting's type."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
