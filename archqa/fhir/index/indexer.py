"""Writes the index rows of a batch into a record: the batch's own numbers become the record's."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from archqa.fhir.index import schema
from archqa.fhir.index.batch import IndexBatch
from archqa.fhir.index.interner import Interner
from archqa.fhir.values.search_parameters import Kind


class Indexer:
    """Writes rows through one connection."""

    def __init__(
        self, connection: sqlite3.Connection, interner: Interner, schema_name: str = "main"
    ) -> None:
        self._connection = connection
        self._interner = interner
        self._schema = schema_name
        self._words: set[tuple[int, int]] = set()

    def remove(self, n: int) -> None:
        """Forget what a resource was found by."""
        for table in schema.INDEX_COLUMN_COUNTS:
            self._connection.execute(f"DELETE FROM {self._schema}.{table} WHERE n = ?", (n,))

    def write(self, digest: IndexBatch, numbers: Sequence[int]) -> None:
        """Write the rows of a batch. `numbers` are the record's numbers of its resources, 0 for those left out."""
        elements = [
            0,
            *(
                self._interner.element(name, Kind(kind), path)
                for name, kind, path in digest.elements[1:]
            ),
        ]
        terms = [0, *(self._interner.term_id(term) for term in digest.terms[1:])]
        targets = [0, *(self._interner.target(target) for target in digest.targets[1:])]
        self._interner.write()
        rows = digest.rows
        written = {
            "token": [
                (numbers[n], elements[p], terms[t], targets[w])
                for n, p, t, w in rows["token"]
                if numbers[n]
            ],
            "reference": [
                (numbers[n], elements[p], targets[t], targets[w])
                for n, p, t, w in rows["reference"]
                if numbers[n]
            ],
            "date": [
                (numbers[n], elements[p], *times, targets[w])
                for n, p, *times, w in rows["date"]
                if numbers[n]
            ],
            "quantity": [
                (numbers[n], elements[p], low, high, terms[t], targets[w])
                for n, p, low, high, t, w in rows["quantity"]
                if numbers[n]
            ],
            "string": [
                (numbers[n], elements[p], folded, exact, targets[w])
                for n, p, folded, exact, w in rows["string"]
                if numbers[n]
            ],
        }
        for table, each in written.items():
            self._insert(table, each)
        self._learn({(elements[p], terms[t]) for p, t in digest.words})
        self._note({row[1] for each in written.values() for row in each}, digest, elements)

    def _insert(self, table: str, rows: list[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * schema.INDEX_COLUMN_COUNTS[table])
        self._connection.executemany(
            f"INSERT OR IGNORE INTO {self._schema}.{table} VALUES ({marks})", rows
        )

    def _learn(self, words: set[tuple[int, int]]) -> None:
        """Which terms an element has at all."""
        new = words - self._words
        self._words |= new
        there = "SELECT 1 FROM vocabulary WHERE p = ?1 AND t = ?2"
        insert = f"INSERT INTO {self._schema}.vocabulary SELECT ?1, ?2 WHERE NOT EXISTS ({there})"
        self._connection.executemany(insert, sorted(new))

    def _note(self, used: set[int], digest: IndexBatch, elements: list[int]) -> None:
        """Which elements have rows, and how long the longest stretch of time of each is."""
        # In an overlay the element may be the base's: it is copied before it is changed.
        copy = f"INSERT OR IGNORE INTO {self._schema}.element SELECT * FROM element WHERE p = ?"
        self._connection.executemany(copy, [(p,) for p in used])
        self._connection.executemany(
            f"UPDATE {self._schema}.element SET used = 1 WHERE p = ?", [(p,) for p in used]
        )
        update = f"UPDATE {self._schema}.element SET longest = ? WHERE p = ? AND longest < ?"
        lengths = [(length, elements[p], length) for p, length in digest.longest.items()]
        self._connection.executemany(update, lengths)
