"""`archqa fhir export`: the bulk export of a server, fetched into a record."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from archqa import fhir
from archqa.cli.console import print_json, print_line, print_notice, print_problem, set_quiet
from archqa.cli.fhir_load import index_notes_of, print_indexed, print_load_report, progress_bar
from archqa.cli.options import AllowPlainHttpOption, JsonOption, QuietOption
from archqa.cli.records import plain_http_allowed
from archqa.errors import CallerError
from archqa.safety.base_urls import is_server_url


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
