"""References between resources, by number: from resources `n` to their targets `t`, and back."""

import sqlite3
from collections.abc import Iterable
from sqlite3 import Connection

from archqa.fhir.index.sql import (
    NUMBERS_PER_STATEMENT,
    first_column,
    sql_marks,
    sql_number_list,
    sql_parts,
)
from archqa.fhir.values.references import ReferenceTarget


def targets_referenced_by(
    connection: Connection,
    numbers: Iterable[int],
    elements: str,
) -> set[int]:
    """Return the targets of these resources in these elements."""
    targets: set[int] = set()
    for part in sql_parts(numbers):
        sql = f"SELECT DISTINCT t FROM reference WHERE n IN ({part}) AND p IN ({elements})"
        targets.update(first_column(connection, sql))
    return targets


def targets_referenced_by_patients(
    connection: Connection,
    patients: Iterable[int],
    elements: str,
) -> set[int]:
    """Return the targets of the resources of these patients in these elements."""
    where = f"p IN ({elements}) AND patient IN ({sql_number_list(patients)})"
    return set(
        first_column(connection, f"SELECT DISTINCT t FROM reference WHERE {where}")
    )


def resources_referencing(
    connection: Connection,
    targets: Iterable[int],
    elements: str,
) -> set[int]:
    """Return the resources that refer to these targets in these elements."""
    resources: set[int] = set()
    for part in sql_parts(targets):
        sql = f"SELECT DISTINCT n FROM reference WHERE p IN ({elements}) AND t IN ({part})"
        resources.update(first_column(connection, sql))
    return resources


def resources_of_targets(
    connection: Connection,
    targets: Iterable[int],
    resource_type: str = "",
) -> set[int]:
    """Return the resources that these targets name, optionally of one type only."""
    names: set[ReferenceTarget] = set()
    for part in sql_parts(targets):
        rows = connection.execute(f"SELECT type, id FROM target WHERE t IN ({part})")
        names.update(ReferenceTarget(*row) for row in rows)
    return resources_named(connection, names, resource_type)


def resources_named(
    connection: Connection,
    names: Iterable[ReferenceTarget],
    resource_type: str = "",
) -> set[int]:
    """Return the resources that references name, optionally of one type only.

    A reference without a type names those of any type.
    """
    types_by_id: dict[str, set[str]] = {}
    for name in names:
        types_by_id.setdefault(name.id, set()).add(name.type)
    resources: set[int] = set()
    type_names = _type_names(connection)
    ids = sorted(types_by_id)
    for start in range(0, len(ids), NUMBERS_PER_STATEMENT):
        part = ids[start : start + NUMBERS_PER_STATEMENT]
        rows = _rows_by_id(connection, "n, id, type FROM resource", part)
        for n, resource_id, k in rows:
            type_or_any = {type_names[k], ""}
            is_named = not types_by_id[resource_id].isdisjoint(type_or_any)
            if is_named and resource_type in type_or_any:
                resources.add(n)
    return resources


def targets_of_resources(connection: Connection, numbers: Iterable[int]) -> set[int]:
    """Return the targets that name these resources."""
    targets: set[int] = set()
    type_names = _type_names(connection)
    for part in sql_parts(numbers):
        resource_types: dict[str, set[str]] = {}
        for resource_id, k in connection.execute(
            f"SELECT id, type FROM resource WHERE n IN ({part})"
        ):
            types = resource_types.setdefault(resource_id, {""})
            types.add(type_names[k])
        rows = _rows_by_id(connection, "t, id, type FROM target", resource_types)
        for t, resource_id, target_type in rows:
            if target_type in resource_types[resource_id]:
                targets.add(t)
    return targets


def _type_names(connection: Connection) -> dict[int, str]:
    return dict(connection.execute("SELECT k, name FROM type").fetchall())


def _rows_by_id(
    connection: Connection, columns: str, ids: Iterable[str]
) -> sqlite3.Cursor:
    values = list(ids)
    sql = f"SELECT {columns} WHERE id IN ({sql_marks(values)})"
    return connection.execute(sql, values)
