"""`archqa doctor`: what works here, and what would have to be installed for the rest."""

import asyncio
import platform
from collections.abc import Iterator
from importlib import metadata
from typing import Annotated, NamedTuple

import typer
from rich.markup import escape

import archqa
from archqa import resources
from archqa.cli.console import console, print_json
from archqa.engine import Engine
from archqa.errors import ArchqaError
from archqa.evaluation.scoring import metric_availability
from archqa.runs.model_server import list_models
from archqa.settings import Settings, load_settings


class Finding(NamedTuple):
    """One thing looked at. `ok` is None where it is optional and absent."""

    what: str
    ok: bool | None
    words: str


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check the installation: engine, prompts, cache, model server, and the metrics.

    Example:
      archqa doctor
    """
    findings = list(_look())
    if as_json:
        print_json({each.what: {"ok": each.ok, "words": each.words} for each in findings})
    else:
        signs = {True: "[green]ok[/]     ", False: "[red]broken[/] ", None: "[yellow]absent[/] "}
        for each in findings:
            console.print(f"{signs[each.ok]} {escape(f'{each.what}: {each.words}')}")
    if any(each.ok is False for each in findings):
        raise typer.Exit(3)


def _look() -> Iterator[Finding]:
    settings = load_settings()
    yield Finding("archqa", True, f"{archqa.__version__} on Python {platform.python_version()}")
    yield Finding("openai", True, metadata.version("openai"))
    yield Finding("prompts", resources.prompts_dir().is_dir(), str(resources.prompts_dir()))
    yield Finding(
        "bundled cases", resources.mini_dataset_dir().is_dir(), str(resources.mini_dataset_dir())
    )
    yield Finding(
        "reply cache",
        True,
        f"{settings.cache.location} ({'on' if settings.cache.enabled else 'off'})",
    )
    yield _engine()
    yield _server(settings)
    yield from _metrics()


def _engine() -> Finding:
    try:
        return Finding("embedded engine", True, f"model sha256 {Engine.load().fingerprint[:12]}")
    except (ArchqaError, OSError, ImportError) as error:
        return Finding("embedded engine", False, f"{type(error).__name__}; reinstall archqa")


def _server(settings: Settings) -> Finding:
    if not settings.has_model:
        return Finding(
            "model server", None, "none is set up; OPENAI_API_KEY, --model or --base-url name one"
        )
    try:
        models = asyncio.run(list_models(settings))
    except ArchqaError as error:
        return Finding("model server", False, " ".join(str(error).split()))
    return Finding(
        "model server",
        True,
        f"{settings.base_url or 'api.openai.com'} serves {', '.join(models[:5])}",
    )


def _metrics() -> Iterator[Finding]:
    for name, reason in metric_availability().items():
        yield Finding(f"metric {name}", None if reason else True, reason or "can run")
