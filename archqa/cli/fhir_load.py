"""`archqa fhir load|split|index`: records in files, and the index of their notes."""

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
from archqa.cli.options import JsonOption, QuietOption
from archqa.errors import CallerError

if TYPE_CHECKING:
    from archqa.chart.note_index import NoteIndexReport


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
        from archqa.chart.note_index import remove_note_index

        remove_note_index(record)
        return
    report = index_notes_of(record, quiet=quiet)
    if as_json:
        print_json(report.model_dump())
    else:
        print_indexed(report)


def index_notes_of(record: Path, *, quiet: bool) -> "NoteIndexReport":
    """Index what the index of a record lacks, with a progress bar."""
    from archqa.chart.note_index import NoteIndexProgress, encode, index_notes

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
