"""`archqa doctor`: checks which parts of the installation work, and says how to add the others."""

import asyncio
import platform
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

import typer
from rich.text import Text

import archqa
from archqa import resources
from archqa.cli.console import console, print_json
from archqa.cli.options import JsonOption
from archqa.cli.settings import command_settings
from archqa.engine import Engine
from archqa.errors import ArchqaError
from archqa.evaluation.scoring import metric_availability
from archqa.runs.model_server import list_models
from archqa.settings import Settings

_STATUSES = {True: ("ok", "green"), False: ("broken", "red"), None: ("absent", "yellow")}
"""The word for a check's outcome, and its colour."""


class Check(NamedTuple):
    """The check of one part. `ok` is None where the part is optional and absent."""

    part: str
    ok: bool | None
    explanation: str


def command(as_json: JsonOption = False) -> None:
    """Check the installation: engine, prompts, cache, model server, and the metrics.

    Example:
      archqa doctor
    """
    checks = list(_checks())
    if as_json:
        print_json({check.part: {"ok": check.ok, "words": check.explanation} for check in checks})
    else:
        for check in checks:
            status, colour = _STATUSES[check.ok]
            description = f"{check.part}: {check.explanation}"
            console.print(Text(f"{status:7}", style=colour) + Text(f" {description}"))
    if any(check.ok is False for check in checks):
        raise typer.Exit(3)


def _checks() -> Iterator[Check]:
    settings = command_settings()
    prompts = resources.prompts_dir()
    bundled_cases = resources.mini_dataset_dir()
    cache_state = "on" if settings.cache.enabled else "off"
    yield Check("archqa", True, f"{archqa.__version__} on Python {platform.python_version()}")
    yield Check("aiohttp", True, metadata.version("aiohttp"))
    yield Check("prompts", prompts.is_dir(), str(prompts))
    yield Check("bundled cases", bundled_cases.is_dir(), str(bundled_cases))
    yield Check("reply cache", True, f"{settings.cache.location} ({cache_state})")
    yield _check_engine()
    yield _check_server(settings)
    yield from _check_metrics()


def _check_engine() -> Check:
    try:
        fingerprint = Engine.load().fingerprint
    except (ArchqaError, OSError, ImportError) as error:
        return Check("embedded engine", False, f"{type(error).__name__}; reinstall archqa")
    return Check("embedded engine", True, f"model sha256 {fingerprint[:12]}")


def _check_server(settings: Settings) -> Check:
    if not settings.has_model:
        return Check(
            "model server",
            None,
            "none is asked: a key alone sends nothing; --model, --base-url, ARCHQA_MODEL "
            "or the user's own configuration names one",
        )
    try:
        models = asyncio.run(list_models(settings))
    except ArchqaError as error:
        return Check("model server", False, " ".join(str(error).split()))
    server = settings.base_url or "api.openai.com"
    return Check("model server", True, f"{server} serves {', '.join(models[:5])}")


def _check_metrics() -> Iterator[Check]:
    for name, missing_reason in metric_availability().items():
        if missing_reason:
            yield Check(f"metric {name}", None, missing_reason)
        else:
            yield Check(f"metric {name}", True, "available")
