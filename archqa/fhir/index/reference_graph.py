"""Who refers to whom, in numbers: from resources `n` to what they name `t`, and back.

Lists of numbers stand in the SQL itself, a few thousand at a time: so SQLite looks each up, also through the views
of an overlay.
"""

import sqlite3
from collections.abc import Iterable, Iterator

_AT_ONCE = 5000


def sql_number_list(numbers: Iterable[int]) -> str:
    """Numbers as SQL: `1, 5`."""
    return ", ".join(map(str, numbers))


def targets_referenced_by(
    connection: sqlite3.Connection, numbers: Iterable[int], elements: str
) -> set[int]:
    """What these resources name in these elements."""
    find = "SELECT DISTINCT t FROM reference WHERE n IN ({}) AND p IN ({})"
    return {
        t for part in _parts(numbers) for (t,) in connection.execute(find.format(part, elements))
    }


def targets_referenced_by_patients(
    connection: sqlite3.Connection, patients: Iterable[int], elements: str
) -> set[int]:
    """What the resources of these patients name in these elements."""
    find = f"SELECT DISTINCT t FROM reference WHERE p IN ({elements}) AND patient IN ({sql_number_list(patients)})"
    return {t for (t,) in connection.execute(find)}


def resources_referencing(
    connection: sqlite3.Connection, targets: Iterable[int], elements: str
) -> set[int]:
    """The resources that name these targets in these elements."""
    find = "SELECT DISTINCT n FROM reference WHERE p IN ({}) AND t IN ({})"
    return {
        n for part in _parts(targets) for (n,) in connection.execute(find.format(elements, part))
    }


def resources_of_targets(
    connection: sqlite3.Connection, targets: Iterable[int], resource_type: str = ""
) -> set[int]:
    """The resources that these targets are, of one type only if it is given."""
    found: set[int] = set()
    types: dict[int, str] = dict(connection.execute("SELECT k, name FROM type").fetchall())
    for part in _parts(targets):
        names: dict[str, set[str]] = {}
        for name, kind in connection.execute(f"SELECT id, type FROM target WHERE t IN ({part})"):
            names.setdefault(name, set()).add(kind)
        marks = ", ".join("?" * len(names))
        for n, name, k in connection.execute(
            f"SELECT n, id, type FROM resource WHERE id IN ({marks})", list(names)
        ):
            if {types[k], ""} & names[name] and resource_type in {types[k], ""}:
                found.add(n)
    return found


def targets_of_resources(connection: sqlite3.Connection, numbers: Iterable[int]) -> set[int]:
    """The targets by which others name these resources."""
    found: set[int] = set()
    types: dict[int, str] = dict(connection.execute("SELECT k, name FROM type").fetchall())
    for part in _parts(numbers):
        kinds: dict[str, set[str]] = {}
        for name, k in connection.execute(f"SELECT id, type FROM resource WHERE n IN ({part})"):
            kinds.setdefault(name, set()).update({types[k], ""})
        marks = ", ".join("?" * len(kinds))
        for t, name, kind in connection.execute(
            f"SELECT t, id, type FROM target WHERE id IN ({marks})", list(kinds)
        ):
            if kind in kinds[name]:
                found.add(t)
    return found


def _parts(numbers: Iterable[int]) -> Iterator[str]:
    wanted = sorted(numbers)
    for start in range(0, len(wanted), _AT_ONCE):
        yield sql_number_list(wanted[start : start + _AT_ONCE])
