"""`archqa fhir load|split|search|get|serve|card|lookup`: a FHIR record in one file."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from archqa import fhir
from archqa.cli.console import console, err_console, print_json, print_notice
from archqa.errors import CallerError

app = typer.Typer(help="FHIR records.", no_args_is_help=True)

Place = Annotated[
    str,
    typer.Option("--record", help="The record: a file made by fhir load, or a server's address."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
OfPatient = Annotated[
    str | None, typer.Option("--patient", help="One patient's id; default: the whole record.")
]


@app.callback()
def _group() -> None:
    """FHIR records."""


@app.command("load")
def load(
    paths: Annotated[
        list[Path],
        typer.Argument(help="NDJSON, Bundles or resources, also gzipped, and folders of them."),
    ],
    into: Annotated[Path, typer.Option(help="The record's file; made if it is not there.")],
    strict: Annotated[
        bool, typer.Option("--strict", help="Load nothing if anything is malformed.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
    as_json: AsJson = False,
) -> None:
    """Load FHIR resources into a record; one that is there already is replaced. Checks SHA256SUMS where there are any.

    Example:
      archqa fhir load mimic-fhir/ --into record.db
    """
    with fhir.Store.open(into, create=True) as store, _bar(quiet) as bar:
        task = bar.add_task("loading", total=None)

        def progress(at: fhir.LoadProgress) -> None:
            bar.update(
                task,
                description=f"{at.resources} resources",
                completed=at.bytes_read,
                total=at.bytes_total,
            )

        report = store.load(paths, strict=strict, progress=progress)
    for path in report.skipped:
        print_notice(f"{path}: is no FHIR; skipped")
    for mistake in report.mistakes:
        print_notice(mistake)
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        _tell(report, into)
    if report.bad:
        raise typer.Exit(1)


@app.command("split")
def split(
    store: Annotated[Path, typer.Argument(help="A record made by fhir load.")],
    shards: Annotated[int, typer.Option(min=1, help="How many files.")],
    into: Annotated[Path, typer.Option(help="A new folder.")],
    as_json: AsJson = False,
) -> None:
    """Split a record by its patients, so that each machine of a cluster reads files of its own.

    predict takes the folder as --record. Each patient's record is in one file, told by the patient's id; what is
    nobody's own (wards, drugs, organizations) is in every file.

    Example:
      archqa fhir split record.db --shards 4 --into shards
    """
    with fhir.Store.open(store) as place:
        made = fhir.split_by_patient(place, shards, into)
    if as_json:
        print_json([{**each._asdict(), "path": str(each.path)} for each in made])
        return
    for each in made:
        console.print(
            f"{each.path}: {each.patients} patients, {each.resources} resources", markup=False
        )


@app.command("search")
def search(
    query: Annotated[str, typer.Argument(help="For example 'Observation?patient=…&code=…'.")],
    record: Place,
    profile: Annotated[str, typer.Option(help="Whose ways: archqa, gcp or hapi.")] = "archqa",
    every: Annotated[bool, typer.Option("--all", help="All pages.")] = False,
    small: Annotated[
        bool, typer.Option("--small", help="Without narrative, codes as words.")
    ] = False,
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Ignore unknown parameters, and say so.")
    ] = False,
) -> None:
    """Search a record: one resource a line on stdout, notices and totals on stderr.

    Example:
      archqa fhir search 'Observation?patient=123&code=2160-0&_sort=-date' --record record.db
    """
    with fhir.connect(record, profile=profile) as place:
        page: fhir.Page | None = place.search(query, lenient=lenient or None)
        first = page
        while page is not None:
            for resource in [*page.resources, *page.included]:
                print_json(fhir.project(resource) if small else resource)
            page = place.search(page.next) if every and page.next else None
    assert first is not None
    for text in first.notices:
        print_notice(text)
    total = "" if first.total is None else f"{first.total} in all"
    more = "" if every or first.next is None else f"{'; ' if total else ''}more with: {first.next}"
    if total or more:
        print_notice(f"{total}{more}")


@app.command("get")
def get(
    name: Annotated[str, typer.Argument(help="Type/id.", metavar="TYPE/ID")],
    record: Place,
) -> None:
    """Print one resource exactly as it was loaded.

    Example:
      archqa fhir get Patient/123 --record record.db
    """
    kind, slash, resource_id = name.partition("/")
    if not slash or not resource_id or "/" in resource_id:
        raise CallerError("A resource is named Type/id, for example Patient/123.")
    with fhir.connect(record) as place:
        if isinstance(place, fhir.Store):
            text = place.text(kind, resource_id)
        else:
            found = place.get(kind, resource_id)
            text = None if found is None else json.dumps(found, ensure_ascii=False)
    if text is None:
        raise fhir.FhirError(f"There is no {kind} of that id in the record.", 404, "not-found")
    console.print(text, markup=False)


@app.command("serve")
def serve(
    store: Annotated[Path, typer.Argument(help="A record made by fhir load.")],
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8080,
    host: Annotated[
        str, typer.Option(help="Where to listen; anything but loopback needs a token.")
    ] = "127.0.0.1",
    path: Annotated[str, typer.Option(help="Where the record lies on the server.")] = "/fhir",
    profile: Annotated[str, typer.Option(help="Whose ways: archqa, gcp or hapi.")] = "archqa",
    writes: Annotated[
        fhir.WriteMode, typer.Option(help="What becomes of a write; apply keeps them in memory.")
    ] = (fhir.WriteMode.READ_ONLY),
    audit: Annotated[Path | None, typer.Option(help="Log every write to this file.")] = None,
    token: Annotated[
        str | None, typer.Option(help="Bearer token; default: ARCHQA_FHIR_TOKEN.")
    ] = None,
) -> None:
    """Serve a record over HTTP, to any FHIR client.

    Example:
      archqa fhir serve record.db --port 8080 --profile hapi
    """
    from archqa.fhir.server.application import serve as run

    opened = fhir.Store.open(store, profile)
    record = fhir.Overlay.over(opened) if writes is fhir.WriteMode.APPLY else opened
    writer = fhir.Writer(record, writes, fhir.AuditLog(audit) if audit else None)
    base = f"http://{host}:{port}/{path.strip('/')}"
    print_notice(f"serving {store} at {base} ({profile}, {writes.value}); end with Ctrl-C")
    run(
        fhir.FhirService(record, base, writer),
        host=host,
        port=port,
        path=path,
        token=token or os.environ.get("ARCHQA_FHIR_TOKEN"),
    )


@app.command("card")
def card(record: Place, patient: OfPatient = None, as_json: AsJson = False) -> None:
    """Print what a record holds: types, code systems, dates, references, paths.

    Example:
      archqa fhir card --record record.db --patient 123
    """
    with fhir.connect(record) as place:
        found = fhir.build_schema_card(place, patient)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        console.print(found.text, markup=False)


@app.command("lookup")
def lookup(
    words: Annotated[list[str], typer.Argument(help="What to look for, for example: heart rate.")],
    record: Place,
    patient: OfPatient = None,
    kind: Annotated[
        list[str] | None, typer.Option("--type", help="Only in this type (repeatable).")
    ] = None,
    limit: Annotated[int, typer.Option(min=1)] = 20,
    as_json: AsJson = False,
) -> None:
    """Find the codes that a record uses for some words.

    Example:
      archqa fhir lookup heart rate --record record.db --patient 123
    """
    with fhir.connect(record) as place:
        hits = fhir.lookup(place, " ".join(words), patient=patient, types=kind or (), limit=limit)
    if as_json:
        print_json([hit.model_dump(mode="json") for hit in hits])
        return
    table = Table("match", "type.element", "code", "words", "resources", "system")
    for hit in hits:
        each = hit.found
        table.add_row(
            hit.match,
            f"{each.type}.{each.element}",
            each.code,
            each.display,
            str(each.count),
            each.system,
        )
    console.print(table if hits else "no code of this record fits these words")


def _bar(quiet: bool) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=err_console, disable=quiet, transient=True)


def _tell(report: fhir.LoadReport, into: Path) -> None:
    counts = ", ".join(f"{number} {name}" for name, number in report.by_type.items())
    console.print(
        f"{into}: {report.added} added, {report.replaced} replaced, {report.unchanged} unchanged",
        markup=False,
    )
    checks = f"; {report.checksums} checksums are right" if report.checksums else ""
    console.print(f"{report.files} files: {counts or 'nothing'}{checks}", markup=False)
    if report.bad:
        console.print(f"{report.bad} malformed, left out", markup=False)
