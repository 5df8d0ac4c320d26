"""Resources of no patient that a patient's record refers to: wards, drugs, people."""

from collections.abc import Iterable
from sqlite3 import Connection

from archqa.fhir.index import reference_graph
from archqa.fhir.search.shared_resources import resources_shared_by
from archqa.fhir.values.search_parameters import parameters


def reachable_targets(
    connection: Connection, resource_type: str, patients: Iterable[int]
) -> set[int]:
    """Return the targets that the resources of these patients refer to and that may be of the type.

    References within the type are followed: from a mix to its ingredients, from a room to its ward.
    """
    outer_elements, inner_elements = _elements_referring_to(connection, resource_type)
    patients = list(patients)
    targets = reference_graph.targets_referenced_by_patients(connection, patients, outer_elements)
    shared = resources_shared_by(connection, patients)
    targets |= reference_graph.targets_referenced_by(connection, shared, outer_elements)
    new = targets if inner_elements else set()
    while new:
        resources = reference_graph.resources_of_targets(connection, new, resource_type)
        referenced = reference_graph.targets_referenced_by(connection, resources, inner_elements)
        new = referenced - targets
        targets |= new
    return targets


def _elements_referring_to(connection: Connection, resource_type: str) -> tuple[str, str]:
    """Return the elements that may refer to the type, as SQL: of other types, of itself."""
    outer: list[int] = []
    inner: list[int] = []
    rows = connection.execute("SELECT p, type, path FROM element WHERE kind = 'reference'")
    for p, source_type, path in rows:
        if _target_types(source_type, path).isdisjoint({resource_type, ""}):
            continue
        elements = inner if source_type == resource_type else outer
        elements.append(p)
    return reference_graph.sql_number_list(outer), reference_graph.sql_number_list(inner)


def _target_types(source_type: str, path: str) -> set[str]:
    """Return the types an element may refer to, "" for any.

    References to the resource's patient do not count.
    """
    types: set[str] = set()
    for parameter in parameters(source_type).values():
        if path in parameter.elements and parameter.name not in {"patient", "subject"}:
            types.update(parameter.targets or ("",))
    return types
