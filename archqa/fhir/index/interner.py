"""Numbers for what comes again and again: elements, terms, targets. A number, once given, stays."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from archqa.fhir.values.index_values import CodedTerm
from archqa.fhir.values.references import ReferenceTarget
from archqa.fhir.values.search_parameters import Kind
from archqa.fhir.values.tokens import normalise_text


class Interner:
    """Gives numbers; writes new ones down when told to. `floor` is the smallest it gives: an overlay's are apart."""

    def __init__(
        self, connection: sqlite3.Connection, schema: str = "main", floor: int = 1
    ) -> None:
        self._connection = connection
        self._schema = schema
        self._known: dict[str, dict[Any, int]] = {
            name: {} for name in ("type", "element", "term", "target")
        }
        self._new: dict[str, list[tuple[Any, ...]]] = {name: [] for name in self._known}
        self._empty = {name: not self._one(f"SELECT 1 FROM {name} LIMIT 1") for name in self._known}
        columns = {"type": "k", "element": "p", "term": "t", "target": "t"}
        self._next = {
            name: max(floor, 1 + (self._one(f"SELECT max({key}) FROM {name}") or 0))
            for name, key in columns.items()
        }

    def type(self, name: str) -> int:
        """The number of a resource type."""
        number = self._known["type"].get(name)
        return number or self._number(
            "type", name, "SELECT k FROM type WHERE name = ?", (name,), (name,)
        )

    def element(self, resource_type: str, kind: Kind, path: str) -> int:
        """The number of an element that is indexed."""
        key = (resource_type, kind.value, path)
        number = self._known["element"].get(key)
        find = "SELECT p FROM element WHERE type = ? AND kind = ? AND path = ?"
        return number or self._number("element", key, find, key, (*key, 0, 0))

    def target(self, target: ReferenceTarget) -> int:
        """The number of what a reference names."""
        number = self._known["target"].get(target)
        key = (target.id, target.type)
        return number or self._number(
            "target", target, "SELECT t FROM target WHERE id = ? AND type = ?", key, key
        )

    def term_id(self, term: CodedTerm) -> int:
        """The number of a term."""
        return self._known["term"].get(term) or self._new_term(term)

    def _new_term(self, term: CodedTerm) -> int:
        folded = normalise_text(term.code) if term.code is not None else None
        words = normalise_text(term.words) if term.words is not None else None
        row = (term.system, term.code, folded if folded != term.code else None, words, term.words)
        find = "SELECT t FROM term WHERE system IS ? AND code IS ? AND display IS ? AND words IS ?"
        key = (term.system, term.code, term.words, words)
        return self._number("term", term, find, key, row)

    def _number(
        self, table: str, value: Any, find: str, key: Sequence[Any], row: tuple[Any, ...]
    ) -> int:
        number = None if self._empty[table] else self._one(find, key)
        if number is None:
            number = self._next[table]
            self._next[table] += 1
            self._new[table].append((number, *row))
        self._known[table][value] = number
        return number

    def write(self) -> None:
        """Write the new numbers down."""
        for table, rows in self._new.items():
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                self._connection.executemany(
                    f"INSERT INTO {self._schema}.{table} VALUES ({marks})", rows
                )
                rows.clear()

    def _one(self, sql: str, key: Sequence[Any] = ()) -> int | None:
        found = self._connection.execute(sql, key).fetchone()
        return found[0] if found else None
