"""`archqa fhir`: searches, reads and serves a record; its files are in `fhir_files`."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from archqa.cli import fhir_files
from archqa.cli.console import (
    NO_TOKEN_WARNING,
    console,
    print_json,
    print_json_text,
    print_line,
    print_notice,
    set_quiet,
)
from archqa.cli.options import (
    AllowPlainHttpOption,
    AuditOption,
    JsonOption,
    NoTokenOption,
    open_record,
)
from archqa.core.write_mode import WriteMode
from archqa.errors import CallerError

if TYPE_CHECKING:
    from archqa import fhir

app = typer.Typer(help="FHIR records.", no_args_is_help=True)

RecordSource = Annotated[
    str,
    Option(
        "--record", help="The record: a file made by fhir load, or a server's address."
    ),
]
ProfileOption = Annotated[
    str,
    Option("--profile", help="The server behaviour to imitate: archqa, gcp or hapi."),
]
PatientOption = Annotated[
    str | None,
    Option("--patient", help="One patient's id; default: the whole record."),
]


@app.callback()
def _group() -> None:
    """FHIR records."""
    set_quiet(quiet=False)


for command in (
    fhir_files.load,
    fhir_files.index,
    fhir_files.dump,
    fhir_files.export,
    fhir_files.split,
):
    app.command(command.__name__)(command)


@app.command("search")
def search(
    query: Annotated[str, Argument(help="For example 'Observation?patient=…&code=…'.")],
    record: RecordSource,
    profile: ProfileOption = "archqa",
    every: Annotated[bool, Option("--all", help="All pages.")] = False,
    small: Annotated[
        bool,
        Option("--small", help="Leave out narrative, and show codes as text."),
    ] = False,
    lenient: Annotated[
        bool,
        Option("--lenient", help="Ignore unknown parameters, with a notice."),
    ] = False,
    allow_plain_http: AllowPlainHttpOption = None,
) -> None:
    """Search a record: one resource a line on stdout, notices and totals on stderr.

    Example:
      archqa fhir search 'Observation?patient=123&code=2160-0&_sort=-date' --record record.db
    """
    from archqa.fhir.record import all_pages

    with open_record(record, allow_plain_http, profile) as source:
        first_page = source.search(query, lenient=lenient or None)
        for page in all_pages(source, first_page) if every else (first_page,):
            _print_page(page, small=small)
    for text in first_page.notices:
        print_notice(text)
    summary = []
    if first_page.total is not None:
        summary.append(f"{first_page.total} in all")
    if first_page.next is not None and not every:
        summary.append(f"more with: {first_page.next}")
    if summary:
        print_notice("; ".join(summary))


def _print_page(page: "fhir.Page", *, small: bool) -> None:
    from archqa.fhir import project

    for resource in [*page.resources, *page.included]:
        print_json(project(resource) if small else resource)


@app.command("get")
def get(
    name: Annotated[str, Argument(help="Type/id.", metavar="TYPE/ID")],
    record: RecordSource,
    allow_plain_http: AllowPlainHttpOption = None,
) -> None:
    """Print one resource exactly as it was loaded.

    Example:
      archqa fhir get Patient/123 --record record.db
    """
    from archqa.fhir import FhirError, Store
    from archqa.fhir.values.references import parse_path

    path = parse_path(name)
    if not path.id or path.tail or path.action:
        raise CallerError("A resource is named Type/id, for example Patient/123.")
    with open_record(record, allow_plain_http) as source:
        if isinstance(source, Store):
            text = source.text(path.type, path.id)
        else:
            # A server's resource is written as JSON anew.
            resource = source.get(path.type, path.id)
            text = (
                None if resource is None else json.dumps(resource, ensure_ascii=False)
            )
    if text is None:
        raise FhirError(
            f"There is no {path.type} of that id in the record.", 404, "not-found"
        )
    print_json_text(text)


@app.command("serve")
def serve(
    store: Annotated[Path, Argument(help="A record made by fhir load.")],
    port: Annotated[int, Option(min=0, max=65535)] = 8080,
    host: Annotated[
        str, Option(help="The address to listen on; default: this machine alone.")
    ] = "127.0.0.1",
    path: Annotated[
        str, Option(help="The path of the record on the server.")
    ] = "/fhir",
    profile: ProfileOption = "archqa",
    writes: Annotated[
        WriteMode,
        Option(help="What happens to writes; apply keeps them in memory."),
    ] = WriteMode.READ_ONLY,
    audit: AuditOption = None,
    token: Annotated[
        str | None,
        Option(
            help="The token of your choice; other users may see it in the list of processes, so "
            "rather set ARCHQA_FHIR_TOKEN.  [default: a random one, printed in the address]"
        ),
    ] = None,
    no_token: NoTokenOption = False,
    cors: Annotated[
        list[str] | None,
        Option(
            metavar="ORIGIN",
            help="Let pages of this site read the record too, with the token (repeatable).",
        ),
    ] = None,
) -> None:
    """Serve a record over HTTP, to any FHIR client that presents the token.

    A client sends it as 'Authorization: Bearer TOKEN', or ?token=TOKEN once and then the cookie;
    archqa itself takes it from ARCHQA_FHIR_TOKEN.

    Examples:
      archqa fhir serve record.db --port 8080 --profile hapi
      ARCHQA_FHIR_TOKEN=... archqa ask QUESTION --record http://127.0.0.1:8080/fhir --patient ID
    """
    from archqa import fhir
    from archqa.fhir.connection import TOKEN_ENV_VAR
    from archqa.fhir.server.application import serve as serve_http
    from archqa.safety.local_server import (
        check_origin,
        check_protected,
        check_token,
        listen,
        new_token,
        require_uvicorn,
        server_url,
        url_with_token,
    )

    require_uvicorn()
    if no_token and token:
        raise CallerError(
            "--token and --no-token contradict each other.\nLeave one of them away."
        )
    chosen_token = None if no_token else token or os.environ.get(TOKEN_ENV_VAR)
    if chosen_token:
        chosen_token = check_token(chosen_token)
    origins = [check_origin(origin) for origin in cors or ()]
    check_protected(host, has_token=not no_token)
    # Reading from it once reports damage before anything is served.
    opened = fhir.Store.open(store, profile)
    opened.counts()
    record = fhir.Overlay.over(opened) if writes is WriteMode.APPLY else opened
    # The log is created before the first write needs it.
    audit_log = fhir.AuditLog(audit) if audit else None
    if audit_log:
        audit_log.create()
    writer = fhir.Writer(record, writes, audit_log)
    listening = listen(host, port)
    base = server_url(host, listening, f"/{path.strip('/')}")
    print_notice(
        f"serving {store} at {base} ({profile}, {writes.value}); end with Ctrl-C"
    )
    served_token = None if no_token else chosen_token or new_token()
    if no_token:
        print_notice(NO_TOKEN_WARNING)
    else:
        source = "you chose" if chosen_token else "is in the address below"
        print_notice(
            f"clients need the token that {source}; archqa takes it from {TOKEN_ENV_VAR}"
        )
    print_line(base if chosen_token else url_with_token(base, served_token))
    service = fhir.FhirService(record, base, writer)
    serve_http(
        service,
        host=host,
        path=path,
        token=served_token,
        listening=listening,
        cors=origins,
    )


@app.command("card")
def card(
    record: RecordSource,
    patient: PatientOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a record contains: types, code systems, dates, references, paths.

    Example:
      archqa fhir card --record record.db --patient 123
    """
    from archqa.fhir import build_schema_card

    with open_record(record, allow_plain_http) as source:
        schema_card = build_schema_card(source, patient)
    if as_json:
        print_json(schema_card.model_dump(mode="json"))
    else:
        console.print(schema_card.text)


@app.command("lookup")
def lookup(
    words: Annotated[
        list[str], Argument(help="What to look for, for example: heart rate.")
    ],
    record: RecordSource,
    patient: PatientOption = None,
    kind: Annotated[
        list[str] | None, Option("--type", help="Only in this type (repeatable).")
    ] = None,
    limit: Annotated[int, Option(min=1)] = 20,
    allow_plain_http: AllowPlainHttpOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the codes that a record uses for a term.

    Example:
      archqa fhir lookup heart rate --record record.db --patient 123
    """
    from rich.table import Table

    from archqa.fhir import lookup as look_up

    term = " ".join(words)
    with open_record(record, allow_plain_http) as source:
        hits = look_up(source, term, patient=patient, types=kind or (), limit=limit)
    if as_json:
        print_json([hit.model_dump(mode="json") for hit in hits])
        return
    if not hits:
        console.print("no code of this record fits these words")
        return
    table = Table("match", "type.element", "code", "words", "resources", "system")
    for hit in hits:
        code = hit.code
        element = f"{code.type}.{code.element}"
        table.add_row(
            hit.match, element, code.code, code.display, str(code.count), code.system
        )
    console.print(table)
