"""`archqa config show`: the settings in force, as a TOML file."""

import json
from typing import Any

import typer

from archqa.cli.console import print_line, print_notice
from archqa.cli.options import AssignmentsOption, ConfigOption, command_settings
from archqa.safety.text import printable_json
from archqa.settings import settings_files
from archqa.settings.sources import shared_variables_set

app = typer.Typer(help="The settings in force.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The settings in force."""


@app.command("show")
def show(config: ConfigOption = None, assign: AssignmentsOption = None) -> None:
    """Print the settings in force as TOML. The API key is left out.

    Options of the command come first, then the environment, the user's own configuration
    ($XDG_CONFIG_HOME/archqa/config.toml), archqa.toml in the current folder and the defaults. The
    file in the current folder may not name servers, models or keys; a file named with --config may.

    Examples:
      archqa config show > settings.toml
      archqa predict mini --config settings.toml
    """
    settings = command_settings(config, assign)
    paths = [str(file.path) for file in settings_files(config)]
    variables = " and ".join(shared_variables_set())
    key_state = "set" if settings.api_key else "not set"
    if variables and not settings.api_key and not settings.has_model:
        key_state = f"not used ({variables} is set, but no model server was asked for)"
    print_notice(f"settings files: {' and '.join(paths) or 'none'}; key: {key_state}")
    print_line("\n".join(_toml_lines(settings.without_secrets())))


def _toml_lines(settings: dict[str, Any], table: str = "") -> list[str]:
    """Return plain values first, then tables; a setting without a value becomes a comment."""
    lines: list[str] = []
    unset: list[str] = []
    tables: list[str] = []
    for name, setting in settings.items():
        if setting is None:
            unset.append(f"# {name} is not set")
        elif not isinstance(setting, dict):
            lines.append(f"{name} = {_toml_value(setting)}")
        elif setting:
            path = f"{table}.{_toml_key(name)}" if table else _toml_key(name)
            # A table of nothing but tables needs no header.
            if not all(isinstance(inner, dict) for inner in setting.values()):
                tables += ["", f"[{path}]"]
            tables += _toml_lines(setting, path)
    return [*lines, *unset, *tables]


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
    # A text in JSON is one in TOML, too, unless it escapes characters beyond U+FFFF.
    return printable_json(json.dumps(str(setting), ensure_ascii=False))
