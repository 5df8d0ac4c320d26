"""`archqa fhir load|index|dump|export|split`: records into files, and out of them.

What a command needs is imported when it runs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from archqa import fhir
from archqa.cli.console import (
    console,
    err_console,
    print_json,
    print_line,
    print_notice,
    print_problem,
    set_quiet,
)
from archqa.cli.options import (
    AllowPlainHttpOption,
    JsonOption,
    QuietOption,
    open_record,
    plain_http_allowed,
)
from archqa.errors import CallerError
from archqa.safety.files import NotPrivate
from archqa.safety.server_urls import is_server_url

if TYPE_CHECKING:
    from archqa.chart.note_index import NoteIndexReport

IntoOption = Annotated[Path, Option(help="The record's file; created if absent.")]
StrictOption = Annotated[
    bool, Option("--strict", help="Load nothing if anything is malformed.")
]
NotesOption = Annotated[
    bool, Option(help="Index the notes, so that questions find them at once.")
]


def load(
    paths: Annotated[
        list[Path],
        Argument(
            help="NDJSON, Bundles or resources, also gzipped, and folders of them."
        ),
    ],
    into: IntoOption,
    strict: StrictOption = False,
    notes: NotesOption = True,
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
        raise CallerError(
            "A server's resources are fetched by: archqa fhir export URL --into FILE"
        )
    with (
        fhir.Store.open_to_load(into) as store,
        _progress_bar("loading", quiet=quiet) as show,
    ):
        report = store.load(
            paths,
            strict=strict,
            progress=lambda progress: show(
                f"{progress.resources} resources",
                progress.bytes_read,
                progress.bytes_total,
            ),
        )
    indexed = _index_notes(into, quiet=quiet) if notes else None
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
        _print_load_report(report, into)
        _print_indexed(indexed)
    if report.bad:
        raise typer.Exit(1)


def index(
    record: Annotated[Path, Argument(help="A record made by fhir load.")],
    remove: Annotated[
        bool,
        Option("--remove", help="Remove the index; the notes stay in the record."),
    ] = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Index the notes of a record that its index lacks, or remove the index.

    `archqa fhir load` does this itself. Without the index, questions read a patient's notes anew
    each time, which takes seconds.

    Example:
      archqa fhir index record.db
    """
    set_quiet(quiet=quiet)
    if remove:
        from archqa.chart.note_index import remove_note_index

        remove_note_index(record)
        return
    report = _index_notes(record, quiet=quiet)
    if as_json:
        print_json(report.model_dump())
    else:
        _print_indexed(report)


def dump(
    record: Annotated[
        str, Argument(help="A record made by fhir load, or a server's address.")
    ],
    into: Annotated[Path, Option(help="A new folder.")],
    compress: Annotated[bool, Option("--gzip", help="Compress the files.")] = False,
    force: Annotated[
        bool, Option("--force", help="Replace an earlier dump in that folder.")
    ] = False,
    allow_plain_http: AllowPlainHttpOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a record as NDJSON: a file for each type, and checksums that fhir load verifies.

    Resources are written as they were loaded, in the same order. A dump that is stopped leaves
    nothing.

    Examples:
      archqa fhir dump record.db --into dump
      archqa fhir load dump --into copy.db
    """
    set_quiet(quiet=quiet)
    with (
        open_record(record, allow_plain_http) as source,
        _progress_bar("dumping", quiet=quiet) as show,
    ):
        report = fhir.dump(
            source,
            into,
            compress=compress,
            force=force,
            progress=lambda progress: show(
                f"{progress.resources} resources, {progress.resource_type}",
                progress.resources,
                progress.total,
            ),
        )
    for remark in report.remarks:
        print_notice(remark)
    if report.reflowed:
        reason = "had line ends between their values, which are blanks in NDJSON"
        print_notice(f"{report.reflowed} resources {reason}")
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        console.print(f"{into}: {_counts_by_type(report.by_type)}")


def export(
    url: Annotated[
        str, Argument(help="The address of a FHIR server with bulk exports.")
    ],
    into: IntoOption,
    kind: Annotated[
        list[str] | None, Option("--type", help="Only this type (repeatable).")
    ] = None,
    since: Annotated[
        str | None, Option(help="Only what changed since this instant.")
    ] = None,
    patients: Annotated[
        bool,
        Option("--patients", help="Only what is about patients (Patient/$export)."),
    ] = False,
    group: Annotated[
        str | None, Option(help="Only the patients of this Group, by its id.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        Option(help="Another host that the server may keep its files on (repeatable)."),
    ] = None,
    strict: StrictOption = False,
    restart: Annotated[
        bool, Option("--restart", help="Drop what was fetched, and begin anew.")
    ] = False,
    notes: NotesOption = True,
    allow_plain_http: AllowPlainHttpOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fetch a server's bulk export ($export) into a record: all of it, or nothing.

    If it is stopped, the same command goes on with what was fetched. The token is in
    ARCHQA_FHIR_TOKEN; or ARCHQA_FHIR_CLIENT_ID and ARCHQA_FHIR_PRIVATE_KEY, the path of a key file,
    name a client of SMART backend services. It goes to the server's own address alone.

    Example:
      archqa fhir export https://fhir.example/r4 --into record.db --type Patient --type Observation
    """
    from archqa.fhir.connection import access_from_environment

    set_quiet(quiet=quiet)
    order = _export_order(url, kind or [], since, group, patients=patients)
    allowed = plain_http_allowed(url, allow_plain_http)
    server = fhir.ExportServer(
        url,
        access=access_from_environment(allow_plain_http=allowed),
        allowed_hosts=allow_host or [],
        allow_plain_http=allowed,
    )
    try:
        with _progress_bar("exporting", quiet=quiet) as show:
            report = fhir.import_export(
                server,
                order,
                into,
                strict=strict,
                restart=restart,
                progress=lambda progress: show(
                    progress.step, progress.done, progress.total
                ),
            )
    except NotPrivate:
        raise
    except BaseException:
        folder = fhir.state_folder(into)
        if (folder / "state.json").exists():
            print_notice(
                f"what was fetched is in {folder}; the same command goes on with it"
            )
        raise
    indexed = _index_notes(into, quiet=quiet) if notes else None
    for remark in report.load.remarks:
        print_notice(remark)
    for problem in (*report.load.mistakes, *report.issues):
        print_problem(problem)
    if report.deleted:
        print_problem("the server names deleted resources; they stay in the record")
    if as_json:
        of_notes = indexed.model_dump() if indexed else None
        print_json({**report.model_dump(mode="json"), "notes": of_notes})
    else:
        _print_load_report(report.load, into)
        time = report.transaction_time
        print_line(f"as of {time}; what is newer: --since {time}")
        _print_indexed(indexed)
    if report.load.bad or report.failures:
        raise typer.Exit(1)


def _export_order(
    url: str, types: list[str], since: str | None, group: str | None, *, patients: bool
) -> "fhir.ExportOrder":
    if not is_server_url(url):
        raise CallerError(
            f"{url} is no server's address.\nFiles are loaded by: archqa fhir load"
        )
    if group and patients:
        raise CallerError(
            "--group and --patients contradict each other.\nName one of them."
        )
    if group and not group.replace("-", "").replace(".", "").isalnum():
        raise CallerError("--group is no id.\nIt has letters, digits, - and .")
    path = "Patient/$export" if patients else "$export"
    if group:
        path = f"Group/{group}/$export"
    return fhir.ExportOrder(
        base=url.rstrip("/"), path=path, types=tuple(types), since=since or ""
    )


def split(
    store: Annotated[Path, Argument(help="A record made by fhir load.")],
    shards: Annotated[int, Option(min=1, help="How many files.")],
    into: Annotated[Path, Option(help="A new folder.")],
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
        _index_notes(file.path, quiet=quiet)
    if as_json:
        print_json([{**file._asdict(), "path": str(file.path)} for file in files])
        return
    for file in files:
        console.print(
            f"{file.path}: {file.patients} patients, {file.resources} resources"
        )


@contextmanager
def _progress_bar(
    begun: str, *, quiet: bool
) -> Iterator[Callable[[str, int, int | None], None]]:
    """Show a bar of what is done, on stderr; none if `quiet`.

    The block calls what it gets with what is done, how much of it, and of how much.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err_console, disable=quiet, transient=True) as bar:
        task = bar.add_task(begun, total=None)

        def show(description: str, completed: int, total: int | None) -> None:
            bar.update(task, description=description, completed=completed, total=total)

        yield show


def _index_notes(record: Path, *, quiet: bool) -> "NoteIndexReport":
    """Index what the index of a record lacks, with a progress bar."""
    from archqa.chart.note_index import encode, index_notes

    with _progress_bar("indexing notes", quiet=quiet) as show:
        return index_notes(
            record,
            encode,
            lambda progress: show(
                f"{progress.documents} of {progress.total} notes indexed",
                progress.documents,
                progress.total,
            ),
        )


def _print_indexed(report: "NoteIndexReport | None") -> None:
    """Print how much was indexed; nothing if there was nothing to index."""
    if report is not None and report.documents:
        unread = ""
        if report.unread:
            names = ", ".join(report.unread_names)
            more = ", …" if report.unread > len(report.unread_names) else ""
            unread = f", {report.unread} without text that can be read: {names}{more}"
        notes = f"{report.notes} {'note' if report.notes == 1 else 'notes'}"
        sentences = (
            f"{report.sentences} {'sentence' if report.sentences == 1 else 'sentences'}"
        )
        print_line(f"{notes} indexed, {sentences}{unread}")


def _print_load_report(report: "fhir.LoadReport", into: Path) -> None:
    """Print what a load did on stdout."""
    changes = f"{report.added} added, {report.replaced} replaced, {report.unchanged} unchanged"
    console.print(f"{into}: {changes}")
    files = f"{report.files} files: {_counts_by_type(report.by_type)}"
    if report.checksums:
        files += f"; {report.checksums} checksums are right"
    console.print(files)
    console.print(f"{report.stored} resources in the record")
    for count, text in (
        (
            report.unresolved,
            "urn:uuid: that resources refer to are of no resource in the record",
        ),
        (
            report.unindexed,
            "references by urn:uuid: are not indexed: searches do not find them",
        ),
        (
            report.conditional,
            "conditional references (Type?identifier=…) do not fit exactly one resource",
        ),
        (
            report.without_resource,
            "entries of Bundles hold no resource: requests and responses are not carried out",
        ),
        (report.converted, "resources of other FHIR versions, converted to R4"),
        (
            report.not_converted,
            "resources of other FHIR versions that R4 has no place for as a whole: answers say so",
        ),
        (report.bad, "malformed, left out"),
    ):
        if count:
            console.print(f"{count} {text}")


def _counts_by_type(by_type: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in by_type.items()) or "nothing"
