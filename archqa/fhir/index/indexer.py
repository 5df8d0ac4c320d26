"""Write the index rows of a batch to a record: batch numbers become the record's numbers."""

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any

from archqa.fhir.index import schema
from archqa.fhir.index.batch import IndexBatch
from archqa.fhir.index.interner import Interner
from archqa.fhir.index.item_numbers import items_of, renumbered_item, resource_of_item
from archqa.fhir.values.search_parameters import Kind

Row = tuple[Any, ...]


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
            used_elements.update(row[1] for row in rows)
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
        self._numbers = numbers
        self.elements = [0]
        for resource_type, kind, path in batch.elements[1:]:
            element_id = interner.element_id(resource_type, Kind(kind), path)
            self.elements.append(element_id)
        self.terms = [0, *map(interner.term_id, batch.terms[1:])]
        self.targets = [0, *map(interner.target_id, batch.targets[1:])]

    def rows_of(self, table: str) -> list[Row]:
        """Return the rows of an index table, without those of resources to leave out."""
        translate = _VALUE_TRANSLATIONS[table]
        rows = []
        for n, p, *values, patient in self._batch.rows[table]:
            number = self._numbers[n] if n >= 0 else self._item_number(n)
            if number:
                translate(self, values)
                rows.append((number, self.elements[p], *values, self.targets[patient]))
        return rows

    def _item_number(self, number: int) -> int:
        """Return the number of an item in the record; 0 if its resource is to be left out."""
        n = self._numbers[resource_of_item(number)]
        return renumbered_item(number, n) if n else 0

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

    def translate_term(self, values: list[Any]) -> None:
        """Replace the term in the last of the values."""
        values[-1] = self.terms[values[-1]]

    def translate_target(self, values: list[Any]) -> None:
        """Replace the target in the last of the values."""
        values[-1] = self.targets[values[-1]]

    def keep(self, values: list[Any]) -> None:
        """Leave values without numbers as they are."""


_VALUE_TRANSLATIONS = {
    "token": _Translation.translate_term,
    "reference": _Translation.translate_target,
    "date": _Translation.keep,
    "quantity": _Translation.translate_term,
    "string": _Translation.keep,
}
