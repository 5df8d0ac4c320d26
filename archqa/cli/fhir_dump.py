"""`archqa fhir dump`: a record as NDJSON files."""

from pathlib import Path
from typing import Annotated

import typer

from archqa import fhir
from archqa.cli.console import console, print_json, print_notice, set_quiet
from archqa.cli.fhir_load import progress_bar
from archqa.cli.options import AllowPlainHttpOption, JsonOption, QuietOption
from archqa.cli.records import open_record


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
