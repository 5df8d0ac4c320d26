"""The settings of a command, and the lines on stderr about what they mean for its text."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from archqa.cli.console import print_notice
from archqa.safety.base_urls import is_server_url
from archqa.settings import Settings, load_settings
from archqa.settings.sources import shared_variables_set


def command_settings(
    config: Path | None = None,
    options: Mapping[str, Any] | None = None,
    assignments: Iterable[str] | None = None,
) -> Settings:
    """Return the settings of a command; say which settings of ./archqa.toml are ignored."""
    return load_settings(config, options, assignments or (), on_ignored=print_notice)


def print_embedded_notice(settings: Settings) -> None:
    """Say that the embedded engine answers, and why no server does."""
    network = "no network"
    if settings.record is not None and is_server_url(settings.record):
        network = "the record is read from its server"
    reason = ""
    if not settings.has_model and shared_variables_set():
        reason = f"{' and '.join(shared_variables_set())} alone sends nothing; "
    print_notice(
        f"the embedded engine answers (no model server, {network}); "
        f"{reason}--model or --base-url selects a server."
    )
