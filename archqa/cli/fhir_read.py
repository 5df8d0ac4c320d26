"""`archqa fhir search|get|card|lookup`: read a record in a file or on a server."""

import json
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.table import Table

from archqa import fhir
from archqa.cli.console import console, print_json, print_json_text, print_notice
from archqa.cli.options import AllowPlainHttpOption, JsonOption, ProfileOption
from archqa.cli.records import open_record
from archqa.errors import CallerError
from archqa.fhir.values.references import parse_path

_MAX_PAGES = 10_000
"""Pages of one search: it must end whatever a server's links say."""

RecordSource = Annotated[
    str,
    typer.Option("--record", help="The record: a file made by fhir load, or a server's address."),
]
PatientOption = Annotated[
    str | None,
    typer.Option("--patient", help="One patient's id; default: the whole record."),
]


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


def get(
    name: Annotated[str, typer.Argument(help="Type/id.", metavar="TYPE/ID")],
    record: RecordSource,
    allow_plain_http: AllowPlainHttpOption = None,
) -> None:
    """Print one resource exactly as it was loaded.

    Example:
      archqa fhir get Patient/123 --record record.db
    """
    path = parse_path(name)
    if not path.id or path.tail or path.action:
        raise CallerError("A resource is named Type/id, for example Patient/123.")
    with open_record(record, allow_plain_http) as source:
        if isinstance(source, fhir.Store):
            text = source.text(path.type, path.id)
        else:
            # What a server sent is written as JSON anew.
            resource = source.get(path.type, path.id)
            text = None if resource is None else json.dumps(resource, ensure_ascii=False)
    if text is None:
        problem = f"There is no {path.type} of that id in the record."
        raise fhir.FhirError(problem, 404, "not-found")
    print_json_text(text)


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
