"""Write the index rows of a batch to a record: batch numbers become the record's numbers.

Repeated values (types, elements, terms, targets) have a number in the record, which never changes.
"""

from collections.abc import Sequence
from operator import itemgetter
from sqlite3 import Connection
from typing import Any

from archqa.fhir.index.batch import IndexRows
from archqa.fhir.index.schema import (
    INDEX_COLUMN_COUNTS,
    MAX_ITEMS,
    item_number,
    renumbered_item,
    resource_of_item,
)
from archqa.fhir.index.sql import first_cell, sql_marks
from archqa.fhir.values.element_values import CodedTerm
from archqa.fhir.values.references import ReferenceTarget
from archqa.fhir.values.text import normalise_text

Row = tuple[Any, ...]

_KEY_COLUMNS = {
    "type": "k",
    "element": "p",
    "term": "t",
    "target": "t",
}

_element_of = itemgetter(1)


class Interner:
    """Assign numbers to values; `flush` writes the new ones.

    Numbers start at `floor`, so that those of an overlay differ from those of its file.
    """

    def __init__(
        self,
        connection: Connection,
        schema: str = "main",
        floor: int = 1,
    ) -> None:
        self._connection = connection
        self._schema = schema
        self._numbers: dict[str, dict[Any, int]] = {}
        self._new_rows: dict[str, list[Row]] = {}
        self._is_empty: dict[str, bool] = {}
        self._next: dict[str, int] = {}
        for table, key in _KEY_COLUMNS.items():
            largest = first_cell(connection, f"SELECT max({key}) FROM {table}")
            self._numbers[table] = {}
            self._new_rows[table] = []
            self._is_empty[table] = largest is None
            self._next[table] = max(floor, (largest or 0) + 1)

    def type_id(self, name: str) -> int:
        """Return the number of a resource type."""
        sql = "SELECT k FROM type WHERE name = ?"
        return self._number("type", name, sql, (name,), (name,))

    def element_id(self, element: tuple[str, str, str]) -> int:
        """Return the number of an indexed element: resource type, kind and path."""
        sql = "SELECT p FROM element WHERE type = ? AND kind = ? AND path = ?"
        return self._number("element", element, sql, element, (*element, 0, 0))

    def target_id(self, target: ReferenceTarget) -> int:
        """Return the number of a reference's target."""
        key = (target.id, target.type)
        sql = "SELECT t FROM target WHERE id = ? AND type = ?"
        return self._number("target", target, sql, key, key)

    def term_id(self, term: CodedTerm) -> int:
        """Return the number of a term."""
        folded = None if term.code is None else normalise_text(term.code)
        if folded == term.code:
            folded = None
        words = None if term.text is None else normalise_text(term.text)
        row = (term.system, term.code, folded, words, term.text)
        sql = "SELECT t FROM term WHERE system IS ? AND code IS ? AND display IS ? AND words IS ?"
        key = (term.system, term.code, term.text, words)
        return self._number(
            "term",
            term,
            sql,
            key,
            row,
        )

    def _number(
        self,
        table: str,
        value: Any,
        sql: str,
        key: Sequence[Any],
        row: Row,
    ) -> int:
        """Return the number in the record, or a new one with a new row."""
        number = self._numbers[table].get(value)
        if number:
            return number
        if not self._is_empty[table]:
            number = first_cell(self._connection, sql, key)
        if number is None:
            number = self._next[table]
            self._next[table] += 1
            self._new_rows[table].append((number, *row))
        self._numbers[table][value] = number
        return number

    def flush(self) -> None:
        """Write the new numbers."""
        for table, rows in self._new_rows.items():
            if rows:
                self._connection.executemany(
                    f"INSERT INTO {self._schema}.{table} VALUES ({sql_marks(rows[0])})",
                    rows,
                )
                rows.clear()


class Indexer:
    """Write index rows through one connection."""

    def __init__(
        self,
        connection: Connection,
        interner: Interner,
        schema_name: str = "main",
    ) -> None:
        self._connection = connection
        self._interner = interner
        self._schema = schema_name
        self._written_terms: set[tuple[int, int]] = set()
        self.unresolved_targets: set[int] = set()
        """The targets of references by `urn:` outside of their bundle, by the record's number."""

    def remove(self, n: int) -> None:
        """Delete the index rows of a resource and of its items."""
        items = (item_number(n, MAX_ITEMS - 1), item_number(n, 0))
        for table in INDEX_COLUMN_COUNTS:
            where = "n = ? OR n BETWEEN ? AND ?"
            self._connection.execute(
                f"DELETE FROM {self._schema}.{table} WHERE {where}", (n, *items)
            )

    def write(self, index: IndexRows, numbers: Sequence[int]) -> None:
        """Write the rows of a batch.

        `numbers` are the record's numbers of the batch's resources, 0 for those to leave out.
        """
        elements = [0, *map(self._interner.element_id, index.elements[1:])]
        terms = [0, *map(self._interner.term_id, index.terms[1:])]
        targets = [0, *map(self._interner.target_id, index.targets[1:])]
        self._interner.flush()
        resources = _WithItems(numbers) if index.has_items else numbers
        used_elements: set[int] = set()
        for table, rows in _renumbered(
            index.rows, resources, elements, terms, targets
        ).items():
            marks = ", ".join("?" * INDEX_COLUMN_COUNTS[table])
            self._connection.executemany(
                f"INSERT OR IGNORE INTO {self._schema}.{table} VALUES ({marks})", rows
            )
            used_elements.update(map(_element_of, rows))
        # Which terms occur in which element.
        used_terms = {(elements[p], terms[t]) for p, t in index.used_terms}
        new = used_terms - self._written_terms
        self._written_terms |= new
        existing = "SELECT 1 FROM vocabulary WHERE p = ?1 AND t = ?2"
        self._connection.executemany(
            f"INSERT INTO {self._schema}.vocabulary SELECT ?1, ?2 WHERE NOT EXISTS ({existing})",
            sorted(new),
        )
        # Which elements have rows, and their longest time range (microseconds).
        durations = [
            (duration, elements[p]) for p, duration in index.max_durations.items()
        ]
        element_keys = [(element,) for element in used_elements]
        # In an overlay the element may be in the base file: copy it before changing it.
        self._connection.executemany(
            f"INSERT OR IGNORE INTO {self._schema}.element SELECT * FROM element WHERE p = ?",
            element_keys,
        )
        self._connection.executemany(
            f"UPDATE {self._schema}.element SET used = 1 WHERE p = ?", element_keys
        )
        self._connection.executemany(
            f"UPDATE {self._schema}.element SET longest = ?1 WHERE p = ?2 AND longest < ?1",
            durations,
        )
        self._connection.executemany(
            f"INSERT OR IGNORE INTO {self._schema}.setting VALUES (?, '1')",
            [(name,) for name in sorted(index.flags)],
        )
        self.unresolved_targets.update(targets[t] for t in index.unresolved_targets)


def _renumbered(
    rows: dict[str, list[Row]],
    numbers: "Sequence[int] | _WithItems",
    elements: list[int],
    terms: list[int],
    targets: list[int],
) -> dict[str, list[Row]]:
    """Return the rows of each table with the record's numbers, without resources to leave out.

    A comprehension for each table: a loading time is made of millions of these rows.
    """
    return {
        "token": [
            (numbers[n], elements[p], terms[t], targets[patient])
            for n, p, t, patient in rows["token"]
            if numbers[n]
        ],
        "reference": [
            (numbers[n], elements[p], targets[t], targets[patient])
            for n, p, t, patient in rows["reference"]
            if numbers[n]
        ],
        "date": [
            (numbers[n], elements[p], low, high, low_utc, high_utc, targets[patient])
            for n, p, low, high, low_utc, high_utc, patient in rows["date"]
            if numbers[n]
        ],
        "quantity": [
            (numbers[n], elements[p], low, high, terms[t], targets[patient])
            for n, p, low, high, t, patient in rows["quantity"]
            if numbers[n]
        ],
        "string": [
            (numbers[n], elements[p], folded, exact, targets[patient])
            for n, p, folded, exact, patient in rows["string"]
            if numbers[n]
        ],
    }


class _WithItems:
    """The record's numbers of the batch's resources, and of the items of their groups."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers

    def __getitem__(self, n: int) -> int:
        if n >= 0:
            return self._numbers[n]
        number = self._numbers[resource_of_item(n)]
        return renumbered_item(n, number) if number else 0
