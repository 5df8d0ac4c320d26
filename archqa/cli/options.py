"""Command-line options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]

KeyOption = Annotated[
    Path | None,
    typer.Option("--key", help="The key; default: the one next to the case file."),
]

RecordOption = Annotated[
    str | None,
    typer.Option("--record", help="A FHIR store or server (FHIR benchmarks)."),
]

ProfileOption = Annotated[
    str,
    typer.Option("--profile", help="The server behaviour to imitate: archqa, gcp or hapi."),
]

PipelineOption = Annotated[
    str | None,
    typer.Option("--pipeline", help="See `archqa list pipelines`."),
]

BackendOption = Annotated[
    str | None,
    typer.Option("--backend", help="What runs the agents; see `archqa list backends`."),
]

ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model", help="Model for every agent, e.g. gpt-4.1; its server gets record text."
    ),
]

BaseUrlOption = Annotated[
    str | None,
    typer.Option("--base-url", help="An OpenAI-compatible server, which gets record text."),
]

AllowPlainHttpOption = Annotated[
    bool | None,
    typer.Option(
        "--allow-plain-http",
        help="Let record text and keys go to another machine without https.",
        show_default=False,
    ),
]

JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", min=1, help="Requests in flight at once.  [default: 8]"),
]

LimitOption = Annotated[
    int | None,
    typer.Option("--limit", min=1, help="Only the first N cases."),
]

MaxCostOption = Annotated[
    float | None,
    typer.Option("--max-cost", metavar="USD", help="Stop when this much is spent."),
]

DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Render every prompt, call no model."),
]

AssignmentsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any setting; repeatable."),
]

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="A TOML file of settings, which may also name servers."),
]

NoTokenOption = Annotated[
    bool,
    typer.Option(
        "--no-token",
        help="Ask for no token: every program and every user of this machine can read the record, "
        "and ask and write what the server allows. Requests of other hosts and sites stay refused. On loopback only.",
    ),
]

JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object."),
]

QuietOption = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="Nothing but errors on stderr."),
]

VerboseOption = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Log every model request, FHIR request and case on stderr; never record text.",
    ),
]
