"""`archqa fhir load|dump|export|split|search|get|serve|card|lookup`: FHIR records in files."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from archqa import fhir
from archqa.cli.console import (
    NO_TOKEN_WARNING,
    console,
    print_json,
    print_json_text,
    print_line,
    print_notice,
    print_problem,
    set_quiet,
)
from archqa.cli.fhir_files import (
    dump,
    export,
    index,
    index_notes_of,
    print_indexed,
    print_load_report,
    progress_bar,
)
from archqa.cli.options import (
    AllowPlainHttpOption,
    JsonOption,
    NoTokenOption,
    QuietOption,
    open_record,
)
from archqa.errors import CallerError
from archqa.fhir.connection import TOKEN_ENV_VAR
from archqa.safety.local_server import (
    check_protected,
    check_token,
    listen,
    new_token,
    require_uvicorn,
    server_url,
    url_with_token,
)

app = typer.Typer(help="FHIR records.", no_args_is_help=True)

_MAX_PAGES = 10_000
"""Pages of one search: it must end whatever a server's links say."""

RecordSource = Annotated[
    str,
    typer.Option("--record", help="The record: a file made by fhir load, or a server's address."),
]
ProfileOption = Annotated[
    str,
    typer.Option("--profile", help="The server behaviour to imitate: archqa, gcp or hapi."),
]
PatientOption = Annotated[
    str | None,
    typer.Option("--patient", help="One patient's id; default: the whole record."),
]


@app.callback()
def _group() -> None:
    """FHIR records."""
    set_quiet(quiet=False)


@app.command("load")
def load(
    paths: Annotated[
        list[Path],
        typer.Argument(help="NDJSON, Bundles or resources, also gzipped, and folders of them."),
    ],
    into: Annotated[Path, typer.Option(help="The record's file; created if absent.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Load nothing if anything is malformed.")
    ] = False,
    notes: Annotated[
        bool, typer.Option(help="Index the notes, so that questions find them at once.")
    ] = True,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Load FHIR resources into a record, replacing those that it has already.

    Files are checked against SHA256SUMS (or SHA256SUMS.txt) beside them or in a folder above. What it
    names in a folder that is loaded must be there. Then the notes (DocumentReference,
    DiagnosticReport, Composition) are indexed in the record's file; if that is stopped, the resources
    are there, and the next load or `archqa fhir index` goes on.

    Example:
      archqa fhir load mimic-fhir/ --into record.db
    """
    set_quiet(quiet=quiet)
    if any(str(path).lower().startswith(("http:/", "https:/")) for path in paths):
        raise CallerError("A server's resources are fetched by: archqa fhir export URL --into FILE")
    with fhir.Store.open(into, create=True) as store, progress_bar(quiet=quiet) as bar:
        task = bar.add_task("loading", total=None)

        def show_progress(progress: fhir.LoadProgress) -> None:
            bar.update(
                task,
                description=f"{progress.resources} resources",
                completed=progress.bytes_read,
                total=progress.bytes_total,
            )

        report = store.load(paths, strict=strict, progress=show_progress)
    indexed = index_notes_of(into, quiet=quiet) if notes else None
    for remark in report.remarks:
        print_notice(remark)
    for path in report.skipped:
        print_notice(f"{path}: is no FHIR; skipped")
    for mistake in report.mistakes:
        print_problem(mistake)
    if as_json:
        of_notes = indexed.model_dump() if indexed else None
        print_json({**report.model_dump(mode="json"), "notes": of_notes})
    else:
        print_load_report(report, into)
        print_indexed(indexed)
    if report.bad:
        raise typer.Exit(1)


app.command("index")(index)
app.command("dump")(dump)
app.command("export")(export)


@app.command("split")
def split(
    store: Annotated[Path, typer.Argument(help="A record made by fhir load.")],
    shards: Annotated[int, typer.Option(min=1, help="How many files.")],
    into: Annotated[Path, typer.Option(help="A new folder.")],
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Split a record by patients, so that each machine of a cluster reads its own files.

    `archqa predict --record` takes the folder. Each patient's resources are in one file, chosen by
    the patient's id; resources of no patient (wards, drugs, organizations) are in every file.

    Example:
      archqa fhir split record.db --shards 4 --into shards
    """
    with fhir.Store.open(store) as record:
        files = fhir.split_by_patient(record, shards, into)
    for file in files:
        index_notes_of(file.path, quiet=quiet)
    if as_json:
        print_json([{**file._asdict(), "path": str(file.path)} for file in files])
        return
    for file in files:
        size = f"{file.patients} patients, {file.resources} resources"
        console.print(f"{file.path}: {size}")


@app.command("search")
def search(
    query: Annotated[str, typer.Argument(help="For example 'Observation?patient=…&code=…'.")],
    record: RecordSource,
    profile: ProfileOption = "archqa",
    every: Annotated[bool, typer.Option("--all", help="All pages.")] = False,
    small: Annotated[
        bool, typer.Option("--small", help="Leave out narrative, and show codes as text.")
    ] = False,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Ignore unknown parameters, with a notice.")
    ] = False,
    allow_plain_http: AllowPlainHttpOption = None,
) -> None:
    """Search a record: one resource a line on stdout, notices and totals on stderr.

    Example:
      archqa fhir search 'Observation?patient=123&code=2160-0&_sort=-date' --record record.db
    """
    with open_record(record, allow_plain_http, profile) as source:
        first_page = source.search(query, lenient=lenient or None)
        _print_page(first_page, small=small)
        if every:
            for page in _further_pages(source, first_page):
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


def _further_pages(source: fhir.Record, page: fhir.Page) -> Iterator[fhir.Page]:
    """The pages after this one. Raises `FhirError` where a server's links form a circle."""
    links: set[str] = set()
    while page.next is not None:
        if page.next in links or len(links) >= _MAX_PAGES:
            raise fhir.FhirError("The server's pages never end.", 502, "throttled")
        links.add(page.next)
        page = source.search(page.next)
        yield page


def _print_page(page: fhir.Page, *, small: bool) -> None:
    for resource in [*page.resources, *page.included]:
        print_json(fhir.project(resource) if small else resource)


@app.command("get")
def get(
    name: Annotated[str, typer.Argument(help="Type/id.", metavar="TYPE/ID")],
    record: RecordSource,
    allow_plain_http: AllowPlainHttpOption = None,
) -> None:
    """Print one resource exactly as it was loaded.

    Example:
      archqa fhir get Patient/123 --record record.db
    """
    resource_type, _, resource_id = name.partition("/")
    if not resource_id or "/" in resource_id:
        raise CallerError("A resource is named Type/id, for example Patient/123.")
    with open_record(record, allow_plain_http) as source:
        text = _resource_text(source, resource_type, resource_id)
    if text is None:
        raise fhir.FhirError(
            f"There is no {resource_type} of that id in the record.", 404, "not-found"
        )
    print_json_text(text)


def _resource_text(source: fhir.Record, resource_type: str, resource_id: str) -> str | None:
    """Return a resource as it was loaded; a server's resource is written as JSON anew."""
    if isinstance(source, fhir.Store):
        return source.text(resource_type, resource_id)
    resource = source.get(resource_type, resource_id)
    if resource is None:
        return None
    return json.dumps(resource, ensure_ascii=False)


@app.command("serve")
def serve(
    store: Annotated[Path, typer.Argument(help="A record made by fhir load.")],
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8080,
    host: Annotated[
        str, typer.Option(help="The address to listen on; default: this machine alone.")
    ] = "127.0.0.1",
    path: Annotated[str, typer.Option(help="The path of the record on the server.")] = "/fhir",
    profile: ProfileOption = "archqa",
    writes: Annotated[
        fhir.WriteMode, typer.Option(help="What happens to writes; apply keeps them in memory.")
    ] = fhir.WriteMode.READ_ONLY,
    audit: Annotated[Path | None, typer.Option(help="Log every write to this file.")] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="The token of your choice; other users may see it in the list of processes, so "
            "rather set ARCHQA_FHIR_TOKEN.  [default: a random one, printed in the address]"
        ),
    ] = None,
    no_token: NoTokenOption = False,
    export_dir: Annotated[
        Path | None,
        typer.Option(
            help="Keep bulk exports in this folder, also for the next server.  [default: a temporary "
            "one]"
        ),
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(
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
    from archqa.fhir.server.application import serve as serve_http
    from archqa.safety.local_server import check_origin

    require_uvicorn("The FHIR server (uvicorn)", "server")
    own_token = _own_token(token, no_token=no_token)
    origins = [check_origin(origin) for origin in cors or ()]
    check_protected(host, has_token=not no_token)
    record = _open_record(store, profile, writes)
    writer = fhir.Writer(record, writes, _open_audit_log(audit))
    exports = fhir.Exports(record, export_dir)
    listening = listen(host, port)
    base = server_url(host, listening, f"/{path.strip('/')}")
    print_notice(f"serving {store} at {base} ({profile}, {writes.value}); end with Ctrl-C")
    served_token = None if no_token else own_token or new_token()
    print_notice(_who_may_read(own_token, no_token=no_token))
    print_line(base if own_token else url_with_token(base, served_token))
    service = fhir.FhirService(record, base, writer, exports, needs_token=not no_token)
    with closing(exports):
        serve_http(
            service, host=host, path=path, token=served_token, listening=listening, cors=origins
        )


def _own_token(token: str | None, *, no_token: bool) -> str | None:
    """Return the token that the user chose, by option or environment; None if there is none."""
    if no_token and token:
        raise CallerError("--token and --no-token contradict each other.\nLeave one of them away.")
    chosen = token or os.environ.get(TOKEN_ENV_VAR)
    return check_token(chosen) if chosen and not no_token else None


def _open_record(path: Path, profile: str, mode: fhir.WriteMode) -> fhir.Store | fhir.Overlay:
    """Open a record and read from it once: damage is reported before anything is served."""
    store = fhir.Store.open(path, profile)
    store.counts()
    return fhir.Overlay.over(store) if mode is fhir.WriteMode.APPLY else store


def _open_audit_log(path: Path | None) -> fhir.AuditLog | None:
    """Create the log of writes, if one is asked for, before the first write needs it."""
    if path is None:
        return None
    audit_log = fhir.AuditLog(path)
    audit_log.create()
    return audit_log


def _who_may_read(own_token: str | None, *, no_token: bool) -> str:
    if no_token:
        return NO_TOKEN_WARNING
    source = "you chose" if own_token else "is in the address below"
    return f"clients need the token that {source}; archqa takes it from {TOKEN_ENV_VAR}"


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
    with open_record(record, allow_plain_http) as source:
        schema_card = fhir.build_schema_card(source, patient)
    if as_json:
        print_json(schema_card.model_dump(mode="json"))
    else:
        console.print(schema_card.text)


@app.command("lookup")
def lookup(
    words: Annotated[list[str], typer.Argument(help="What to look for, for example: heart rate.")],
    record: RecordSource,
    patient: PatientOption = None,
    kind: Annotated[
        list[str] | None, typer.Option("--type", help="Only in this type (repeatable).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1)] = 20,
    allow_plain_http: AllowPlainHttpOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the codes that a record uses for a term.

    Example:
      archqa fhir lookup heart rate --record record.db --patient 123
    """
    term = " ".join(words)
    with open_record(record, allow_plain_http) as source:
        hits = fhir.lookup(source, term, patient=patient, types=kind or (), limit=limit)
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
        table.add_row(hit.match, element, code.code, code.display, str(code.count), code.system)
    console.print(table)
