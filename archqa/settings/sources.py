"""Settings from the environment and from a TOML file."""

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archqa.errors import InputError
from archqa.settings.names import full_names

PREFIX = "ARCHQA_"
_SHARED_VARIABLES = {"OPENAI_BASE_URL": "base_url", "OPENAI_API_KEY": "api_key"}
"""Variables of OpenAI's own Python package; those of archqa take precedence."""


def environment_values() -> dict[str, Any]:
    """Settings in `ARCHQA_…` variables: `ARCHQA_JOBS`, `ARCHQA_LIMITS__JOBS`, `ARCHQA_AGENTS__CONTEXT__MODEL`.

    Variables that name no setting are somebody else's and left alone.
    """
    values: dict[str, Any] = {}
    for variable, name in _SHARED_VARIABLES.items():
        if variable in os.environ:
            values[name] = os.environ[variable]
    for variable, text in os.environ.items():
        if variable.upper().startswith(PREFIX):
            _assign(values, variable[len(PREFIX) :].lower().split("__"), _decoded(text))
    return values


def read_toml(path: Path) -> dict[str, Any]:
    """A file of settings. Raises `InputError` if it is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InputError(
            path, [f": {error}"], "The file must be TOML; `archqa config show` prints one."
        ) from None


def _assign(values: dict[str, Any], path: list[str], value: Any) -> None:
    *sections, name = path
    if not _is_setting(path[0]):
        return
    for section in sections:
        inner = values.setdefault(section, {})
        if not isinstance(inner, dict):
            return
        values = inner
    if isinstance(values.get(name), Mapping) and not isinstance(value, Mapping):
        return
    values[name] = value


def _is_setting(name: str) -> bool:
    from archqa.settings.model import Settings

    return name in Settings.model_fields or bool(full_names(name))


def _decoded(text: str) -> Any:
    """Lists and tables are JSON; anything else is read by the setting's type."""
    if not text.startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
