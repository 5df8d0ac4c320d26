"""`archqa fhir`: FHIR records in files and on servers. A command is imported when it runs."""

import typer

from archqa.cli.console import set_quiet
from archqa.cli.lazy import CommandEntry, LazyGroup

COMMANDS = (
    CommandEntry(
        "load",
        "archqa.cli.fhir_load",
        "Load FHIR resources into a record, replacing those that it has already.",
        function="load",
    ),
    CommandEntry(
        "index",
        "archqa.cli.fhir_load",
        "Index the notes of a record that its index lacks, or remove the index.",
        function="index",
    ),
    CommandEntry(
        "dump",
        "archqa.cli.fhir_dump",
        "Write a record as NDJSON: a file for each type, and checksums that fhir load verifies.",
        function="dump",
    ),
    CommandEntry(
        "export",
        "archqa.cli.fhir_export",
        "Fetch a server's bulk export ($export) into a record: all of it, or nothing.",
        function="export",
    ),
    CommandEntry(
        "split",
        "archqa.cli.fhir_load",
        "Split a record by patients, so that each machine of a cluster reads its own files.",
        function="split",
    ),
    CommandEntry(
        "search",
        "archqa.cli.fhir_read",
        "Search a record: one resource a line on stdout, notices and totals on stderr.",
        function="search",
    ),
    CommandEntry(
        "get",
        "archqa.cli.fhir_read",
        "Print one resource exactly as it was loaded.",
        function="get",
    ),
    CommandEntry(
        "serve",
        "archqa.cli.fhir_serve",
        "Serve a record over HTTP, to any FHIR client that presents the token.",
        function="serve",
    ),
    CommandEntry(
        "card",
        "archqa.cli.fhir_read",
        "Print what a record contains: types, code systems, dates, references, paths.",
        function="card",
    ),
    CommandEntry(
        "lookup",
        "archqa.cli.fhir_read",
        "Find the codes that a record uses for a term.",
        function="lookup",
    ),
)
"""Every subcommand, in the order of `archqa fhir --help`."""


class FhirCommands(LazyGroup):
    """The subcommands of `archqa fhir`."""

    entries = COMMANDS


app = typer.Typer(cls=FhirCommands, help="FHIR records.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """FHIR records."""
    set_quiet(quiet=False)
