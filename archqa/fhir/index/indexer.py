"""Write the index rows of a batch to a record: batch numbers become the record's numbers."""

from collections.abc import Sequence
from operator import itemgetter
from sqlite3 import Connection
from typing import Any

from archqa.fhir.index import schema
from archqa.fhir.index.batch import IndexBatch
from archqa.fhir.index.interner import Interner
from archqa.fhir.index.item_numbers import items_of, renumbered_item, resource_of_item
from archqa.fhir.values.search_parameters import Kind

Row = tuple[Any, ...]

_element_of = itemgetter(1)


class Indexer:
    """Write index rows through one connection."""

    def __init__(
        self, connection: Connection, interner: Interner, schema_name: str = "main"
    ) -> None:
        self._connection = connection
        self._interner = interner
        self._schema = schema_name
        self._written_terms: set[tuple[int, int]] = set()
        self.unresolved_targets: set[int] = set()
        """The targets of references by `urn:` outside of their bundle, by the record's number."""

    def remove(self, n: int) -> None:
        """Delete the index rows of a resource."""
        for table in schema.INDEX_COLUMN_COUNTS:
            where = "n = ? OR n BETWEEN ? AND ?"
            delete = f"DELETE FROM {self._schema}.{table} WHERE {where}"
            self._connection.execute(delete, (n, *items_of(n)))

    def write(self, batch: IndexBatch, numbers: Sequence[int]) -> None:
        """Write the rows of a batch.

        `numbers` are the record's numbers of the batch's resources, 0 for those to leave out.
        """
        translation = _Translation(batch, self._interner, numbers)
        self._interner.flush()
        used_elements: set[int] = set()
        for table in schema.INDEX_COLUMN_COUNTS:
            rows = translation.rows_of(table)
            self._insert(table, rows)
            used_elements.update(map(_element_of, rows))
        self._write_vocabulary(translation.used_terms())
        self._update_elements(used_elements, translation.max_durations())
        self._write_flags(batch.flags)
        self.unresolved_targets.update(translation.targets[t] for t in batch.unresolved_targets)

    def _insert(self, table: str, rows: list[Row]) -> None:
        marks = ", ".join("?" * schema.INDEX_COLUMN_COUNTS[table])
        sql = f"INSERT OR IGNORE INTO {self._schema}.{table} VALUES ({marks})"
        self._connection.executemany(sql, rows)

    def _write_vocabulary(self, used_terms: set[tuple[int, int]]) -> None:
        """Write which terms occur in which element."""
        new = used_terms - self._written_terms
        self._written_terms |= new
        existing = "SELECT 1 FROM vocabulary WHERE p = ?1 AND t = ?2"
        insert = (
            f"INSERT INTO {self._schema}.vocabulary SELECT ?1, ?2 WHERE NOT EXISTS ({existing})"
        )
        self._connection.executemany(insert, sorted(new))

    def _write_flags(self, flags: set[str]) -> None:
        insert = f"INSERT OR IGNORE INTO {self._schema}.setting VALUES (?, '1')"
        self._connection.executemany(insert, [(name,) for name in sorted(flags)])

    def _update_elements(self, used: set[int], durations: dict[int, int]) -> None:
        """Mark the elements that have rows, and update their longest time range."""
        element_keys = [(p,) for p in used]
        # In an overlay the element may be in the base file: copy it before changing it.
        copy = f"INSERT OR IGNORE INTO {self._schema}.element SELECT * FROM element WHERE p = ?"
        self._connection.executemany(copy, element_keys)
        mark = f"UPDATE {self._schema}.element SET used = 1 WHERE p = ?"
        self._connection.executemany(mark, element_keys)
        lengthen = f"UPDATE {self._schema}.element SET longest = ?1 WHERE p = ?2 AND longest < ?1"
        lengths = [(length, p) for p, length in durations.items()]
        self._connection.executemany(lengthen, lengths)


class _Translation:
    """The rows of a batch with the record's numbers instead of the batch's."""

    def __init__(
        self,
        batch: IndexBatch,
        interner: Interner,
        numbers: Sequence[int],
    ) -> None:
        self._batch = batch
        self._numbers = _WithItems(numbers) if batch.has_items else numbers
        self.elements = [0]
        for resource_type, kind, path in batch.elements[1:]:
            element_id = interner.element_id(resource_type, Kind(kind), path)
            self.elements.append(element_id)
        self.terms = [0, *map(interner.term_id, batch.terms[1:])]
        self.targets = [0, *map(interner.target_id, batch.targets[1:])]

    def rows_of(self, table: str) -> list[Row]:
        """Return the rows of an index table, without those of resources to leave out."""
        return _ROW_TRANSLATIONS[table](self, self._batch.rows[table])

    def _token_rows(self, rows: list[Row]) -> list[Row]:
        return self._rows_with(self.terms, rows)

    def _reference_rows(self, rows: list[Row]) -> list[Row]:
        return self._rows_with(self.targets, rows)

    def _rows_with(self, values: list[int], rows: list[Row]) -> list[Row]:
        numbers, elements, targets = self._numbers, self.elements, self.targets
        return [
            (numbers[n], elements[p], values[value], targets[patient])
            for n, p, value, patient in rows
            if numbers[n]
        ]

    def _date_rows(self, rows: list[Row]) -> list[Row]:
        numbers, elements, targets = self._numbers, self.elements, self.targets
        return [
            (numbers[n], elements[p], low, high, low_utc, high_utc, targets[patient])
            for n, p, low, high, low_utc, high_utc, patient in rows
            if numbers[n]
        ]

    def _quantity_rows(self, rows: list[Row]) -> list[Row]:
        numbers, elements, targets = self._numbers, self.elements, self.targets
        return [
            (numbers[n], elements[p], low, high, self.terms[t], targets[patient])
            for n, p, low, high, t, patient in rows
            if numbers[n]
        ]

    def _string_rows(self, rows: list[Row]) -> list[Row]:
        numbers, elements, targets = self._numbers, self.elements, self.targets
        return [
            (numbers[n], elements[p], folded, exact, targets[patient])
            for n, p, folded, exact, patient in rows
            if numbers[n]
        ]

    def used_terms(self) -> set[tuple[int, int]]:
        """Return the elements of the batch, each with the terms that occur in it."""
        used_terms = set()
        for p, t in self._batch.used_terms:
            used_terms.add((self.elements[p], self.terms[t]))
        return used_terms

    def max_durations(self) -> dict[int, int]:
        """Return the longest time range of each element, in microseconds."""
        durations = {}
        for p, duration in self._batch.max_durations.items():
            durations[self.elements[p]] = duration
        return durations


_ROW_TRANSLATIONS = {
    "token": _Translation._token_rows,
    "reference": _Translation._reference_rows,
    "date": _Translation._date_rows,
    "quantity": _Translation._quantity_rows,
    "string": _Translation._string_rows,
}
"""One function for each table: a loading time is made of millions of these rows."""


class _WithItems:
    """The record's numbers of the batch's resources, and of the items of their groups."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers

    def __getitem__(self, n: int) -> int:
        if n >= 0:
            return self._numbers[n]
        number = self._numbers[resource_of_item(n)]
        return renumbered_item(n, number) if number else 0
