"""Pieces of SQL, and what the first column of its rows has.

Lists of numbers stand in the SQL itself, a few thousand at a time: this way SQLite looks up each
number, also through the views of an overlay.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from sqlite3 import Connection
from typing import Any

NUMBERS_PER_STATEMENT = 5000


def sql_number_list(numbers: Iterable[int]) -> str:
    """Return numbers as SQL: `1, 5`."""
    return ", ".join(map(str, numbers))


def sql_parts(numbers: Iterable[int]) -> Iterator[str]:
    """Yield the sorted numbers as SQL lists of limited length."""
    ordered = sorted(numbers)
    for start in range(0, len(ordered), NUMBERS_PER_STATEMENT):
        yield sql_number_list(ordered[start : start + NUMBERS_PER_STATEMENT])


def sql_marks(values: Collection[Any]) -> str:
    """Return a placeholder for each value: `?, ?`."""
    return ", ".join("?" * len(values))


def first_column(
    connection: Connection, sql: str, args: Sequence[Any] = ()
) -> list[Any]:
    """Return the first cell of each row."""
    return [row[0] for row in connection.execute(sql, args)]


def first_cell(connection: Connection, sql: str, args: Sequence[Any] = ()) -> Any:
    """Return the first cell of the first row; None without a row."""
    row = connection.execute(sql, args).fetchone()
    return None if row is None else row[0]
