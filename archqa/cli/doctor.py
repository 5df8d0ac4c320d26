"""`archqa doctor`: checks which parts of the installation work, and says how to add the others."""

import platform
from collections.abc import Iterator
from importlib import metadata, util
from typing import Annotated

import typer
from rich.text import Text

from archqa import resources
from archqa.cli.console import console, print_json
from archqa.cli.model_servers import HOW_TO_START, Check, check_server
from archqa.cli.options import (
    AllowPlainHttpOption,
    ConfigOption,
    JsonOption,
    command_settings,
)
from archqa.core.tables import read_rows
from archqa.core.version import __version__
from archqa.engine import Engine
from archqa.errors import ArchqaError
from archqa.evaluation.scoring import metric_availability
from archqa.settings import Settings

_EXTRAS = "cli/data/extras.tsv"
"""The optional parts: name, the modules that one brings, and what it gives."""

_STATUSES = {
    True: ("ok", "green"),
    False: ("broken", "red"),
    None: ("absent", "yellow"),
}
"""The word for a check's outcome, and its colour."""


def command(
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="The model server to check.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="The model to try, with one request of invented text."
        ),
    ] = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the installation: engine, prompts, cache, model server, metrics and optional parts.

    A server that is configured is asked for its list of models. With --model, one request with
    invented text is sent too, to see whether the server keeps replies to a JSON Schema. No text of a
    record is sent. The exit code is 3 where a part is broken, 4 where the server is.

    Examples:
      archqa doctor
      archqa doctor --base-url http://127.0.0.1:8080/v1 --model qwen3
    """
    settings = command_settings(
        config,
        base_url=base_url,
        model=model,
        allow_plain_http=allow_plain_http,
    )
    checks = list(_checks(settings, model))
    if as_json:
        print_json(
            {
                check.part: {"ok": check.ok, "words": check.explanation}
                for check in checks
            }
        )
    else:
        for check in checks:
            status, colour = _STATUSES[check.ok]
            description = f"{check.part}: {check.explanation}"
            console.print(Text(f"{status:7}", style=colour) + Text(f" {description}"))
        if not settings.has_model:
            console.print("\n".join(("", *HOW_TO_START)))
    for check in checks:
        if check.ok is False:
            raise typer.Exit(check.exit_code)


def _checks(settings: Settings, tried_model: str | None) -> Iterator[Check]:
    prompts = resources.prompts_dir()
    bundled_cases = resources.mini_dataset_dir()
    cache_state = "on" if settings.cache.enabled else "off"
    yield Check("archqa", True, f"{__version__} on Python {platform.python_version()}")
    yield Check("openai", True, metadata.version("openai"))
    yield Check("prompts", prompts.is_dir(), str(prompts))
    yield Check("bundled cases", bundled_cases.is_dir(), str(bundled_cases))
    yield Check("reply cache", True, f"{settings.cache.location} ({cache_state})")
    try:
        fingerprint = Engine.load().fingerprint
    except (ArchqaError, OSError, ImportError) as error:
        yield Check(
            "embedded engine", False, f"{type(error).__name__}; reinstall archqa"
        )
    else:
        yield Check("embedded engine", True, f"model sha256 {fingerprint[:12]}")
    yield from check_server(settings, tried_model)
    for name, missing_reason in metric_availability().items():
        ok = None if missing_reason else True
        yield Check(f"metric {name}", ok, missing_reason or "available")
    for extra, modules, gives in read_rows(_EXTRAS, 3):
        missing = [module for module in modules.split() if not _is_installed(module)]
        if missing:
            how_to = f"pip install 'archqa[{extra}]' (absent: {', '.join(missing)})"
            yield Check(f"extra {extra}", None, f"{gives}; {how_to}")
        else:
            yield Check(f"extra {extra}", True, gives)


def _is_installed(module: str) -> bool:
    """Whether a module can be found; it is not imported."""
    try:
        return util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
