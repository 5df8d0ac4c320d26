"""Find the resources that `_include` (references) and `_revinclude` (referring resources) add.

Source: hl7.org/fhir/R4/search.html#revinclude. `*` stands for every reference that can be searched
by.
"""

from collections.abc import Iterable
from sqlite3 import Connection

from archqa.fhir.index import reference_graph
from archqa.fhir.search.query import Include, Query
from archqa.fhir.values.search_parameters import Kind, parameters

MAX_INCLUDED = 10_000
"""Included resources of one page."""

_MAX_ITERATIONS = 6
"""Steps that `:iterate` follows."""


def find_included(
    connection: Connection, query: Query, match_numbers: Iterable[int]
) -> tuple[list[int], bool]:
    """Return the numbers of the included resources, in the record's order.

    The flag tells whether some were left out because there are more than `MAX_INCLUDED`.
    """
    matches = set(match_numbers)
    reached = set(matches)
    latest = sorted(matches)
    for step in range(_MAX_ITERATIONS):
        is_initial = step == 0
        new: set[int] = set()
        for include in query.includes:
            if is_initial or include.iterate:
                new |= _referenced_by(connection, include, latest)
        for include in query.revincludes:
            if is_initial or include.iterate:
                new |= _referring_to(connection, include, latest)
        latest = sorted(new - reached)
        reached |= new
        if not latest:
            break
    included = sorted(reached - matches)
    is_cut = len(included) > MAX_INCLUDED
    return included[:MAX_INCLUDED], is_cut


def _referenced_by(connection: Connection, include: Include, numbers: list[int]) -> set[int]:
    elements = _elements(connection, include)
    targets = reference_graph.targets_referenced_by(connection, numbers, elements)
    return reference_graph.resources_of_targets(connection, targets, include.target)


def _referring_to(connection: Connection, include: Include, numbers: list[int]) -> set[int]:
    elements = _elements(connection, include)
    targets = reference_graph.targets_of_resources(connection, numbers)
    return reference_graph.resources_referencing(connection, targets, elements)


def _elements(connection: Connection, include: Include) -> str:
    """Return the numbers of the elements of an include, as SQL."""
    sql = "SELECT p, type, path FROM element WHERE kind = 'reference'"
    numbers = []
    for p, source_type, path in connection.execute(sql).fetchall():
        if _concerns(include, source_type, path):
            numbers.append(p)
    return reference_graph.sql_number_list(numbers)


def _concerns(include: Include, source_type: str, path: str) -> bool:
    if include.source and include.source != source_type:
        return False
    if not include.parameter:
        return "[]" not in path
    parameter = parameters(source_type).get(include.parameter)
    if parameter is None or parameter.kind is not Kind.REFERENCE:
        return False
    return path in parameter.elements
