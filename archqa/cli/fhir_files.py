"""`archqa fhir dump`: a record as NDJSON files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

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
from archqa.safety.server_urls import is_server_url

if TYPE_CHECKING:
    from archqa.chart.note_indexing import NoteIndexReport


def index(
    record: Annotated[Path, typer.Argument(help="A record made by fhir load.")],
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the index; the notes stay in the record.")
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
        from archqa.chart.note_indexing import remove_note_index

        remove_note_index(record)
        return
    report = index_notes_of(record, quiet=quiet)
    if as_json:
        print_json(report.model_dump())
    else:
        print_indexed(report)


def index_notes_of(record: Path, *, quiet: bool) -> "NoteIndexReport":
    """Index what the index of a record lacks, with a progress bar."""
    from archqa.chart.encoding import encode
    from archqa.chart.note_indexing import NoteIndexProgress, index_notes

    with progress_bar(quiet=quiet) as bar:
        task = bar.add_task("indexing notes", total=None)

        def show_progress(progress: NoteIndexProgress) -> None:
            description = f"{progress.documents} of {progress.total} notes indexed"
            bar.update(
                task, description=description, completed=progress.documents, total=progress.total
            )

        return index_notes(record, encode, show_progress)


def print_indexed(report: "NoteIndexReport | None") -> None:
    """Print how much was indexed; nothing if there was nothing to index."""
    if report is not None and report.documents:
        unread = f", {report.unread} without text that can be read" if report.unread else ""
        notes = _counted(report.notes, "note")
        print_line(f"{notes} indexed, {_counted(report.sentences, 'sentence')}{unread}")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def progress_bar(*, quiet: bool) -> Progress:
    """Return a bar of what is done, on stderr; none if `quiet`."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=err_console, disable=quiet, transient=True)


def dump(
    record: Annotated[
        str, typer.Argument(help="A record made by fhir load, or a server's address.")
    ],
    into: Annotated[Path, typer.Option(help="A new folder.")],
    compress: Annotated[bool, typer.Option("--gzip", help="Compress the files.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an earlier dump in that folder.")
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
    with open_record(record, allow_plain_http) as source, progress_bar(quiet=quiet) as bar:
        task = bar.add_task("dumping", total=None)

        def show_progress(progress: fhir.DumpProgress) -> None:
            description = f"{progress.resources} resources, {progress.resource_type}"
            bar.update(
                task, description=description, completed=progress.resources, total=progress.total
            )

        report = fhir.dump(source, into, compress=compress, force=force, progress=show_progress)
    for remark in report.remarks:
        print_notice(remark)
    if report.reflowed:
        reason = "had line ends between their values, which are blanks in NDJSON"
        print_notice(f"{report.reflowed} resources {reason}")
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    counts = ", ".join(f"{count} {name}" for name, count in report.by_type.items())
    console.print(f"{into}: {counts or 'nothing'}")


def print_load_report(report: fhir.LoadReport, into: Path) -> None:
    """Print what a load did on stdout."""
    changes = f"{report.added} added, {report.replaced} replaced, {report.unchanged} unchanged"
    console.print(f"{into}: {changes}")
    counts = ", ".join(f"{count} {name}" for name, count in report.by_type.items())
    files = f"{report.files} files: {counts or 'nothing'}"
    if report.checksums:
        files += f"; {report.checksums} checksums are right"
    console.print(files)
    console.print(f"{report.stored} resources in the record")
    if report.unresolved:
        text = "urn:uuid: that resources refer to are of no resource in the record"
        console.print(f"{report.unresolved} {text}")
    if report.unindexed:
        text = "references by urn:uuid: are not indexed: searches do not find them"
        console.print(f"{report.unindexed} {text}")
    if report.conditional:
        text = "conditional references (Type?identifier=…) do not fit exactly one resource"
        console.print(f"{report.conditional} {text}")
    if report.without_resource:
        text = "entries of Bundles hold no resource: requests and responses are not carried out"
        console.print(f"{report.without_resource} {text}")
    if report.bad:
        console.print(f"{report.bad} malformed, left out")


def export(
    url: Annotated[str, typer.Argument(help="The address of a FHIR server with bulk exports.")],
    into: Annotated[Path, typer.Option(help="The record's file; created if absent.")],
    kind: Annotated[
        list[str] | None, typer.Option("--type", help="Only this type (repeatable).")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only what changed since this instant.")] = None,
    patients: Annotated[
        bool, typer.Option("--patients", help="Only what is about patients (Patient/$export).")
    ] = False,
    group: Annotated[
        str | None, typer.Option(help="Only the patients of this Group, by its id.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another host that the server may keep its files on (repeatable)."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Load nothing if anything is malformed.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Drop what was fetched, and begin anew.")
    ] = False,
    notes: Annotated[
        bool, typer.Option(help="Index the notes, so that questions find them at once.")
    ] = True,
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
    set_quiet(quiet=quiet)
    order = _order(url, kind or [], since, group, patients=patients)
    server = _server(url, allow_host or [], allow_plain_http)
    with _remark_on_what_is_kept(into), progress_bar(quiet=quiet) as bar:
        task = bar.add_task("exporting", total=None)

        def show_progress(progress: fhir.ImportProgress) -> None:
            bar.update(
                task, description=progress.step, completed=progress.done, total=progress.total
            )

        report = fhir.import_export(
            server, order, into, strict=strict, restart=restart, progress=show_progress
        )
    indexed = index_notes_of(into, quiet=quiet) if notes else None
    _print_remarks(report)
    if as_json:
        of_notes = indexed.model_dump() if indexed else None
        print_json({**report.model_dump(mode="json"), "notes": of_notes})
    else:
        _print_report(report, into)
        print_indexed(indexed)
    if report.load.bad or report.failures:
        raise typer.Exit(1)


def _order(
    url: str, types: list[str], since: str | None, group: str | None, *, patients: bool
) -> fhir.ExportOrder:
    if not is_server_url(url):
        raise CallerError(f"{url} is no server's address.\nFiles are loaded by: archqa fhir load")
    if group and patients:
        raise CallerError("--group and --patients contradict each other.\nName one of them.")
    if group and not group.replace("-", "").replace(".", "").isalnum():
        raise CallerError("--group is no id.\nIt has letters, digits, - and .")
    path = "Patient/$export" if patients else "$export"
    if group:
        path = f"Group/{group}/$export"
    base = url.rstrip("/")
    return fhir.ExportOrder(base=base, path=path, types=tuple(types), since=since or "")


def _server(url: str, hosts: list[str], allow_plain_http: bool | None) -> fhir.ExportServer:
    from archqa.fhir.connection import access_from_environment

    allowed = plain_http_allowed(url, allow_plain_http)
    access = access_from_environment(allow_plain_http=allowed)
    return fhir.ExportServer(url, access=access, allowed_hosts=hosts, allow_plain_http=allowed)


@contextmanager
def _remark_on_what_is_kept(into: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        folder = fhir.state_folder(into)
        if (folder / "state.json").exists():
            print_notice(f"what was fetched is in {folder}; the same command goes on with it")
        raise


def _print_remarks(report: fhir.ImportReport) -> None:
    for remark in report.load.remarks:
        print_notice(remark)
    for problem in (*report.load.mistakes, *report.issues):
        print_problem(problem)
    if report.deleted:
        print_problem("the server names deleted resources; they stay in the record")


def _print_report(report: fhir.ImportReport, into: Path) -> None:
    print_load_report(report.load, into)
    print_line(f"as of {report.transaction_time}; what is newer: --since {report.transaction_time}")
