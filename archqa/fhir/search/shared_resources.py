"""Resources of so many patients that their index rows are not repeated for each of them.

Their rows have patient 0, like those of no patient, and `setting` has `shared:Type`. A search of
such a type must not look at the rows of its patient alone.
"""

from collections.abc import Iterable
from sqlite3 import Connection

from archqa.fhir.index.reference_graph import resources_referencing, sql_number_list
from archqa.fhir.index.row_extractor import SHARED, UNINDEXED
from archqa.fhir.values.search_parameters import parameters


def owner_elements(connection: Connection) -> dict[int, str]:
    """Return the elements that name a resource's patient: number and type."""
    sql = "SELECT p, type, path FROM element WHERE kind = 'reference'"
    elements = {}
    for p, resource_type, path in connection.execute(sql).fetchall():
        parameter = parameters(resource_type).get("patient")
        if parameter is not None and path in parameter.elements:
            elements[p] = resource_type
    return elements


def has_shared_resources(connection: Connection, resource_type: str) -> bool:
    """Whether resources of this type are about many patients each."""
    return _has_setting(connection, f"{SHARED}{resource_type}")


def has_unindexed_references(connection: Connection, resource_type: str) -> bool:
    """Whether resources of this type have references that the index leaves out."""
    return _has_setting(connection, f"{UNINDEXED}{resource_type}")


def _has_setting(connection: Connection, name: str) -> bool:
    row = connection.execute("SELECT 1 FROM setting WHERE name = ?", (name,)).fetchone()
    return row is not None


def resources_shared_by(connection: Connection, patients: Iterable[int]) -> set[int]:
    """Return the shared resources that are about any of these patients."""
    sql = "SELECT name FROM setting WHERE name >= ? AND name < ?"
    names = connection.execute(sql, (SHARED, f"{SHARED}\U0010ffff")).fetchall()
    types = {name.removeprefix(SHARED) for (name,) in names}
    if not types:
        return set()
    elements = [p for p, owner_type in owner_elements(connection).items() if owner_type in types]
    return resources_referencing(connection, patients, sql_number_list(elements))
