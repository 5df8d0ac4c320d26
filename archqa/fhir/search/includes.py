"""What comes with the matches: `_include` (what they refer to) and `_revinclude` (what refers to them).

Source: hl7.org/fhir/R4/search.html#revinclude. `*` stands for every reference that can be searched by.
"""

import sqlite3
from collections.abc import Iterable

from archqa.fhir.index import reference_graph
from archqa.fhir.search.query import Include, Query
from archqa.fhir.values.search_parameters import Kind, parameters

MAX_INCLUDED = 10_000
"""Resources that come with one page at most."""

_ROUNDS = 6
"""How often `:iterate` goes on."""


def find_included(
    connection: sqlite3.Connection, query: Query, found: Iterable[int]
) -> tuple[list[int], bool]:
    """The numbers of what comes with the matches `found`, in the record's order; whether some had to be left out."""
    matches = list(found)
    seen = set(matches)
    last = matches
    for turn in range(_ROUNDS):
        wanted = [(each, False) for each in query.includes if turn == 0 or each.iterate]
        wanted += [(each, True) for each in query.revincludes if turn == 0 or each.iterate]
        new: set[int] = set()
        for include, back in wanted:
            new |= (
                _pointing_to(connection, include, last)
                if back
                else _named_by(connection, include, last)
            )
        last = sorted(new - seen)
        seen |= new
        if not last:
            break
    extra = sorted(seen - set(matches))
    return extra[:MAX_INCLUDED], len(extra) > MAX_INCLUDED


def _named_by(connection: sqlite3.Connection, include: Include, numbers: list[int]) -> set[int]:
    named = reference_graph.targets_referenced_by(
        connection, numbers, _elements(connection, include)
    )
    return reference_graph.resources_of_targets(connection, named, include.target)


def _pointing_to(connection: sqlite3.Connection, include: Include, numbers: list[int]) -> set[int]:
    targets = reference_graph.targets_of_resources(connection, numbers)
    return reference_graph.resources_referencing(
        connection, targets, _elements(connection, include)
    )


def _elements(connection: sqlite3.Connection, include: Include) -> str:
    """The numbers of the elements an include speaks of."""
    rows = connection.execute(
        "SELECT p, type, path FROM element WHERE kind = 'reference'"
    ).fetchall()
    return reference_graph.sql_number_list(
        p for p, source, path in rows if _speaks_of(include, source, path)
    )


def _speaks_of(include: Include, source: str, path: str) -> bool:
    if include.source and include.source != source:
        return False
    if not include.parameter:
        return True
    parameter = parameters(source).get(include.parameter)
    return parameter is not None and parameter.kind is Kind.REFERENCE and path in parameter.elements
