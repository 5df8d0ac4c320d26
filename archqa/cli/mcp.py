"""`archqa mcp`: serves a record's tools over the Model Context Protocol."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from typer import Option

from archqa import fhir
from archqa.asking.chart import chart_destinations
from archqa.asking.patient import SeveralPatients, find_patient
from archqa.cli.console import (
    NO_TOKEN_WARNING,
    configure_logging,
    print_line,
    print_notice,
    print_problem,
)
from archqa.cli.interruption import end_mcp_server_on_signal
from archqa.cli.options import (
    AllowPlainHttpOption,
    AssignmentsOption,
    AuditOption,
    BaseUrlOption,
    ConfigOption,
    ModelOption,
    NoTokenOption,
    QuietOption,
    VerboseOption,
    command_settings,
    print_embedded_notice,
)
from archqa.errors import CallerError
from archqa.mcp import CallLimits, RecordTools, ServedRecord
from archqa.runs.destinations import Announcer
from archqa.runs.model_server import check_model_server
from archqa.safety.local_server import (
    check_protected,
    check_token,
    listen,
    new_token,
    run_server,
    server_url,
)
from archqa.safety.server_urls import is_loopback
from archqa.settings import Settings

TOKEN_ENV_VAR = "ARCHQA_MCP_TOKEN"

_DEFAULTS = CallLimits()


def command(
    record: Annotated[
        str, Option(help="The FHIR store or server whose record is served.")
    ],
    patient: Annotated[
        str | None,
        Option(help="Serve this patient only: FHIR id, identifier (MRN) or name."),
    ] = None,
    allow_writes: Annotated[
        bool,
        Option("--allow-writes", help="Let clients add resources, in memory alone."),
    ] = False,
    audit: AuditOption = None,
    http: Annotated[
        bool,
        Option("--http", help="Serve over HTTP instead of standard input and output."),
    ] = False,
    host: Annotated[
        str, Option(help="With --http: the address; default: this machine alone.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0: any free port.")] = 8585,
    no_token: NoTokenOption = False,
    max_rows: Annotated[
        int, Option(min=1, help="Resources, sentences or rows of one reply.")
    ] = _DEFAULTS.rows,
    max_bytes: Annotated[
        int, Option(min=1024, help="Bytes of one reply.")
    ] = _DEFAULTS.bytes,
    max_seconds: Annotated[
        float, Option(min=0.1, help="Seconds that one call may take.")
    ] = _DEFAULTS.seconds,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: ConfigOption = None,
    assign: AssignmentsOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Serve a record to a client of the Model Context Protocol: search, read, query, ask, brief.

    The client starts this command and talks to it by standard input and output. It gets record
    text, and shows it to its own model: choose a client that may have it. With --http it is a
    server; clients send the token as 'Authorization: Bearer TOKEN'. The token is printed, unless
    ARCHQA_MCP_TOKEN sets it.

    Examples:
      archqa mcp --record record.db
      archqa mcp --record record.db --patient 1b7c7
      archqa mcp --record record.db --http --port 8585
    """
    configure_logging(verbose=verbose, quiet=quiet)
    from archqa.mcp.server import (
        HTTP_PATH,
        build_server,
        http_application,
        serve_standard_input,
    )  # It needs the extra.

    if no_token and not http:
        raise CallerError("--no-token is for --http.\nLeave it out.")
    if http:
        check_protected(host, has_token=not no_token)
    settings = command_settings(
        config,
        assign,
        model=model,
        base_url=base_url,
        allow_plain_http=allow_plain_http,
    )
    limits = CallLimits(max_rows, max_bytes, max_seconds)
    with _served_tools(
        record, patient, settings, limits, audit, writes=allow_writes
    ) as tools:
        server = build_server(tools, limits)
        if not settings.has_model:
            print_embedded_notice(settings.replace(record=record))
        announce = Announcer(print_problem, quiet=quiet)
        announce(chart_destinations(settings, record))
        if not http:
            end_mcp_server_on_signal()
            print_notice("the client that started this command gets record text.")
            serve_standard_input(server)
            return
        listening = listen(host, port)
        token = None
        chosen_token = os.environ.get(TOKEN_ENV_VAR)
        if no_token:
            print_notice(NO_TOKEN_WARNING)
        elif chosen_token:
            token = check_token(chosen_token)
        else:
            token = new_token()
            print_line(f"Authorization: Bearer {token}")
        print_notice(
            "every client with the token gets record text; press Ctrl+C to end."
        )
        print_line(server_url(host, listening, HTTP_PATH))
        app = http_application(server, token=token, on_loopback=is_loopback(host))
        run_server(app, listening, lifespan=True)


@contextmanager
def _served_tools(
    record: str,
    patient: str | None,
    settings: Settings,
    limits: CallLimits,
    audit: Path | None,
    *,
    writes: bool,
) -> Iterator[RecordTools]:
    """Open the record, with additions in memory if they are allowed."""
    if settings.has_model:
        check_model_server(settings, settings.base_url)
    if audit is not None and not writes:
        raise CallerError("--audit is for --allow-writes.\nLeave it out.")
    with fhir.connect(record, allow_plain_http=settings.allow_plain_http) as opened:
        written: fhir.Overlay | None = None
        if writes:
            if not isinstance(opened, fhir.Store):
                raise CallerError(
                    "Writes are kept in memory on top of a store; this record is on a server.\n"
                    "Leave --allow-writes out, or load the record: archqa fhir load."
                )
            written = fhir.Overlay.over(opened)
        only = None
        if patient is not None:
            try:
                only = find_patient(opened, patient)
            except SeveralPatients as error:
                print_line(error.details)
                raise
        writer = None
        if written is not None:
            audit_log = fhir.AuditLog(audit) if audit else None
            if audit_log:
                audit_log.create()
            writer = fhir.Writer(written, fhir.WriteMode.APPLY, audit_log)
        yield RecordTools(
            ServedRecord(record, opened, limits, only, written), settings, writer
        )
