"""What a patient's record refers to: the wards, drugs and people in it that are nobody's own."""

import sqlite3
from collections.abc import Iterable

from archqa.fhir.index import reference_graph
from archqa.fhir.values.search_parameters import parameters


def reachable_targets(
    connection: sqlite3.Connection, resource_type: str, patients: Iterable[int]
) -> set[int]:
    """The targets that the resources of these patients refer to and that may be of the type.

    Also by way of another of its type: a mix by its ingredients, a room by its ward.
    """
    outer, inner = _pointing_at(connection, resource_type)
    found = reference_graph.targets_referenced_by_patients(connection, patients, outer)
    new = found if inner else set()
    while new:
        resources = reference_graph.resources_of_targets(connection, new, resource_type)
        new = reference_graph.targets_referenced_by(connection, resources, inner) - found
        found |= new
    return found


def _pointing_at(connection: sqlite3.Connection, resource_type: str) -> tuple[str, str]:
    """The elements that may refer to the type: of other types, and of the type itself."""
    outer: list[int] = []
    inner: list[int] = []
    for p, source, path in connection.execute(
        "SELECT p, type, path FROM element WHERE kind = 'reference'"
    ):
        if {resource_type, ""} & _targets(source, path):
            (inner if source == resource_type else outer).append(p)
    return reference_graph.sql_number_list(outer), reference_graph.sql_number_list(inner)


def _targets(source: str, path: str) -> set[str]:
    """The types an element may refer to, an empty one for any; whose the resource is does not count."""
    return {
        target
        for parameter in parameters(source).values()
        if path in parameter.elements and parameter.name not in {"patient", "subject"}
        for target in parameter.targets or ("",)
    }
