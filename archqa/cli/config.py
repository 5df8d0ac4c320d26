"""`archqa config show`: the settings in force, as a TOML file."""

from typing import Any

import typer

from archqa.cli.console import print_line, print_notice
from archqa.cli.options import AssignmentsOption, ConfigOption
from archqa.settings import default_config_path, load_settings

app = typer.Typer(help="The settings in force.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The settings in force."""


@app.command("show")
def show(config: ConfigOption = None, assign: AssignmentsOption = None) -> None:
    """Print the settings in force as TOML. The API key is left out.

    Options of the command come first, then the environment, the settings file and the defaults.

    Example:
      archqa config show > archqa.toml
    """
    settings = load_settings(config, assignments=assign or ())
    path = config or default_config_path() or "none"
    key_state = "set" if settings.api_key else "not set"
    print_notice(f"settings file: {path}; key: {key_state}")
    print_line("\n".join(_toml_lines(settings.without_secrets())))


def _toml_lines(settings: dict[str, Any], table: str = "") -> list[str]:
    """Return plain values first, then tables; a setting without a value becomes a comment."""
    lines: list[str] = []
    unset: list[str] = []
    tables: list[str] = []
    for name, setting in settings.items():
        if setting is None:
            unset.append(f"# {name} is not set")
        elif isinstance(setting, dict):
            tables += _table_lines(setting, table, name)
        else:
            lines.append(f"{name} = {_toml_value(setting)}")
    return [*lines, *unset, *tables]


def _table_lines(settings: dict[str, Any], parent: str, name: str) -> list[str]:
    """Return one table with its header, which a table of nothing but tables does not need."""
    if not settings:
        return []
    path = f"{parent}.{_toml_key(name)}" if parent else _toml_key(name)
    lines = _toml_lines(settings, path)
    if all(isinstance(setting, dict) for setting in settings.values()):
        return lines
    return ["", f"[{path}]", *lines]


def _toml_key(name: str) -> str:
    is_bare = name.replace("_", "").replace("-", "").isalnum()
    return name if is_bare else f'"{name}"'


def _toml_value(setting: Any) -> str:
    if isinstance(setting, bool):
        return str(setting).lower()
    if isinstance(setting, list | tuple):
        return f"[{', '.join(map(_toml_value, setting))}]"
    if isinstance(setting, int | float):
        return str(setting)
    escaped = str(setting).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
