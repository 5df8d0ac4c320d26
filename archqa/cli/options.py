"""Command-line options that several commands share, and what they stand for: settings and records.

Settings and records are imported where a command needs them.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from archqa.cli.console import print_notice
from archqa.safety.server_urls import is_server_url

if TYPE_CHECKING:
    from archqa import fhir
    from archqa.settings import Settings

RunArgument = Annotated[Path, Argument(metavar="RUN", help="A run folder.")]

KeyOption = Annotated[
    Path | None,
    Option("--key", help="The key; default: the one next to the case file."),
]

RecordOption = Annotated[
    str | None,
    Option("--record", help="A FHIR store or server (FHIR benchmarks)."),
]

PipelineOption = Annotated[
    str | None,
    Option("--pipeline", help="See `archqa list pipelines`."),
]

BackendOption = Annotated[
    str | None,
    Option("--backend", help="What runs the agents; see `archqa list backends`."),
]

ModelOption = Annotated[
    str | None,
    Option(
        "--model",
        help="Model for every agent, e.g. gpt-4.1; its server gets record text.",
    ),
]

BaseUrlOption = Annotated[
    str | None,
    Option("--base-url", help="An OpenAI-compatible server, which gets record text."),
]

AllowPlainHttpOption = Annotated[
    bool | None,
    Option(
        "--allow-plain-http",
        help="Let record text and keys go to another machine without https.",
        show_default=False,
    ),
]

JobsOption = Annotated[
    int | None,
    Option("--jobs", min=1, help="Requests in flight at once.  [default: 8]"),
]

LimitOption = Annotated[
    int | None,
    Option("--limit", min=1, help="Only the first N cases."),
]

MaxCostOption = Annotated[
    float | None,
    Option("--max-cost", metavar="USD", help="Stop when this much is spent."),
]

DryRunOption = Annotated[
    bool,
    Option("--dry-run", help="Render every prompt, call no model."),
]

AssignmentsOption = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Any setting; repeatable."),
]

ConfigOption = Annotated[
    Path | None,
    Option("--config", help="A TOML file of settings, which may also name servers."),
]

NoTokenOption = Annotated[
    bool,
    Option(
        "--no-token",
        help="Ask for no token: every program and every user of this machine can read the record, "
        "and ask and write what the server allows. Requests of other hosts and sites stay refused. On loopback only.",
    ),
]

JsonOption = Annotated[
    bool,
    Option("--json", help="Print one JSON object."),
]

RunJsonOption = Annotated[
    bool,
    Option("--json", help="Print one JSON object about the run."),
]

AuditOption = Annotated[
    Path | None,
    Option("--audit", help="Log every write to this file."),
]

QuietOption = Annotated[
    bool,
    Option("--quiet", "-q", help="Nothing but errors on stderr."),
]

VerboseOption = Annotated[
    bool,
    Option(
        "--verbose",
        "-v",
        help="Log every model request, FHIR request and case on stderr; never record text.",
    ),
]


def command_settings(
    config: Path | None = None,
    assignments: Iterable[str] | None = None,
    **options: Any,
) -> "Settings":
    """Return the settings of a command; say which settings of ./archqa.toml are ignored."""
    from archqa.settings import load_settings

    return load_settings(config, options, assignments or (), on_ignored=print_notice)


def print_embedded_notice(settings: "Settings") -> None:
    """Say that the embedded engine answers, and why no server does."""
    from archqa.settings.sources import shared_variables_set

    network = "no network"
    if settings.record is not None and is_server_url(settings.record):
        network = "the record is read from its server"
    variables = shared_variables_set()
    reason = ""
    if variables and not settings.has_model:
        reason = f"{' and '.join(variables)} alone sends nothing; "
    print_notice(
        f"the embedded engine answers (no model server, {network}); "
        f"{reason}--model or --base-url selects a server."
    )


def open_record(
    record: str, allow_plain_http: bool | None, profile: str = "archqa"
) -> "fhir.Store | fhir.FhirClient":
    """The store or server. Raises as `fhir.connect` does."""
    from archqa.fhir import connect

    allowed = plain_http_allowed(record, allow_plain_http)
    return connect(record, profile=profile, allow_plain_http=allowed)


def plain_http_allowed(record: str | None, typed: bool | None) -> bool:
    """Whether a record on another machine may be read over plain http: as typed, else as set."""
    if typed is not None or record is None or not is_server_url(record):
        return bool(typed)
    from archqa.settings import load_settings

    return load_settings().allow_plain_http
