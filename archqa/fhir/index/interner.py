"""Numbers for repeated values: types, elements, terms, targets. A number never changes."""

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any

from archqa.fhir.values.element_values import CodedTerm
from archqa.fhir.values.references import ReferenceTarget
from archqa.fhir.values.search_parameters import Kind
from archqa.fhir.values.text import normalise_text

_KEY_COLUMNS = {"type": "k", "element": "p", "term": "t", "target": "t"}


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
        self._new_rows: dict[str, list[tuple[Any, ...]]] = {}
        self._is_empty: dict[str, bool] = {}
        self._next: dict[str, int] = {}
        for table, key in _KEY_COLUMNS.items():
            largest = self._query_number(f"SELECT max({key}) FROM {table}")
            self._numbers[table] = {}
            self._new_rows[table] = []
            self._is_empty[table] = largest is None
            next_number = (largest or 0) + 1
            self._next[table] = max(floor, next_number)

    def type_id(self, name: str) -> int:
        """Return the number of a resource type."""
        number = self._numbers["type"].get(name)
        sql = "SELECT k FROM type WHERE name = ?"
        return number or self._assign("type", name, sql, (name,), (name,))

    def element_id(
        self,
        resource_type: str,
        kind: Kind,
        path: str,
    ) -> int:
        """Return the number of an indexed element."""
        key = (resource_type, kind.value, path)
        number = self._numbers["element"].get(key)
        sql = "SELECT p FROM element WHERE type = ? AND kind = ? AND path = ?"
        return number or self._assign("element", key, sql, key, (*key, 0, 0))

    def target_id(self, target: ReferenceTarget) -> int:
        """Return the number of a reference's target."""
        number = self._numbers["target"].get(target)
        key = (target.id, target.type)
        sql = "SELECT t FROM target WHERE id = ? AND type = ?"
        return number or self._assign("target", target, sql, key, key)

    def term_id(self, term: CodedTerm) -> int:
        """Return the number of a term."""
        return self._numbers["term"].get(term) or self._assign_term(term)

    def _assign_term(self, term: CodedTerm) -> int:
        folded, words = None, None
        if term.code is not None:
            folded = normalise_text(term.code)
        if folded == term.code:
            folded = None
        if term.text is not None:
            words = normalise_text(term.text)
        row = (term.system, term.code, folded, words, term.text)
        sql = "SELECT t FROM term WHERE system IS ? AND code IS ? AND display IS ? AND words IS ?"
        key = (term.system, term.code, term.text, words)
        return self._assign("term", term, sql, key, row)

    def _assign(
        self, table: str, value: Any, sql: str, key: Sequence[Any], row: tuple[Any, ...]
    ) -> int:
        """Return the number in the record, or a new one with a new row."""
        number = None
        if not self._is_empty[table]:
            number = self._query_number(sql, key)
        if number is None:
            number = self._next[table]
            self._next[table] += 1
            self._new_rows[table].append((number, *row))
        self._numbers[table][value] = number
        return number

    def flush(self) -> None:
        """Write the new numbers."""
        for table, rows in self._new_rows.items():
            if not rows:
                continue
            marks = ", ".join("?" * len(rows[0]))
            sql = f"INSERT INTO {self._schema}.{table} VALUES ({marks})"
            self._connection.executemany(sql, rows)
            rows.clear()

    def _query_number(self, sql: str, key: Sequence[Any] = ()) -> int | None:
        row = self._connection.execute(sql, key).fetchone()
        return row[0] if row else None
