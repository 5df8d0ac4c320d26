"""`archqa config show`: the settings in force, as a TOML file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from archqa.cli.console import print_notice
from archqa.settings import default_config_path, load_settings

app = typer.Typer(help="The settings in force.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The settings in force."""


@app.command("show")
def show(
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    assign: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting.")
    ] = None,
) -> None:
    """Print the settings in force as TOML: typed, environment, file, defaults. The key is left out.

    Example:
      archqa config show > archqa.toml
    """
    settings = load_settings(config, assignments=assign or ())
    print_notice(
        f"settings file: {config or default_config_path() or 'none'}; key: {'set' if settings.api_key else 'not set'}"
    )
    typer.echo("\n".join(_toml(settings.without_secrets())))


def _toml(values: dict[str, Any], table: str = "") -> list[str]:
    """Plain values first, then tables; what is unset stands as a comment."""
    lines = [
        f"{name} = {_value(value)}"
        for name, value in values.items()
        if not isinstance(value, dict | None)
    ]
    lines += [f"# {name} is not set" for name, value in values.items() if value is None]
    for name, value in values.items():
        if isinstance(value, dict) and value:
            inner = f"{table}.{_key(name)}" if table else _key(name)
            rows = _toml(value, inner)
            lines += (
                ["", f"[{inner}]", *rows]
                if any(not isinstance(each, dict) for each in value.values())
                else rows
            )
    return lines


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, int | float):
        return str(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
