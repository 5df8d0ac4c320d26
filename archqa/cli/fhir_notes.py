"""`archqa fhir index`: the index of a record's notes. What it needs is imported when it runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from archqa.cli.console import err_console, print_json, print_line, set_quiet
from archqa.cli.options import JsonOption, QuietOption

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
