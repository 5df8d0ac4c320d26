"""What a resource is found by: its index rows, gathered and written many at a time."""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from archqa.fhir import schema, values
from archqa.fhir.counting import names_a_concept
from archqa.fhir.interner import Interner
from archqa.fhir.parameters import Kind, elements, parameters
from archqa.fhir.paths import Walk, top, walk
from archqa.fhir.references import Target

_Emit = Callable[[int, int, Any, tuple[int, ...]], None]
_Plan = dict[str | None, list[tuple[_Emit, int, Walk]]]
"""What to do with each member that a resource may have; most have few of those that could be indexed."""

_NOBODY = (0,)


class Indexer:
    """Gathers the index rows of resources. `names` says what the `urn:uuid:…` of a bundle stand for."""

    def __init__(self, connection: sqlite3.Connection, interner: Interner, schema_name: str = "main") -> None:
        self._connection = connection
        self._interner = interner
        self._schema = schema_name
        self._rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in schema.ROWS}
        self._longest: dict[int, int] = {}
        self._words: set[tuple[int, int]] = set()
        self._new_words: list[tuple[int, int]] = []
        self._plans: dict[str, _Plan] = {}
        self._names: Mapping[str, Target] = {}

    def add(self, n: int, resource: dict[str, Any], names: Mapping[str, Target]) -> None:
        """Gather the rows of the resource with number `n`."""
        self._names = names
        resource_type = resource["resourceType"]
        plan = self._plans.get(resource_type) or self._plan(resource_type)
        patients = self._patients(resource_type, resource)
        for member in (None, *resource):
            for emit, p, values_of in plan.get(member, ()):
                for value in values_of(resource):
                    emit(n, p, value, patients)

    def remove(self, n: int) -> None:
        """Forget what the resource was found by."""
        self.write()
        for table in schema.ROWS:
            self._connection.execute(f"DELETE FROM {self._schema}.{table} WHERE n = ?", (n,))

    def write(self) -> None:
        """Write down what was gathered."""
        self._interner.write()
        used: set[int] = set()
        for table, rows in self._rows.items():
            used.update(row[1] for row in rows)
            marks = ", ".join("?" * schema.ROWS[table])
            self._connection.executemany(f"INSERT OR IGNORE INTO {self._schema}.{table} VALUES ({marks})", rows)
            rows.clear()
        there = "SELECT 1 FROM vocabulary WHERE p = ?1 AND t = ?2"
        insert = f"INSERT INTO {self._schema}.vocabulary SELECT ?1, ?2 WHERE NOT EXISTS ({there})"
        self._connection.executemany(insert, self._new_words)
        self._new_words.clear()
        # In an overlay the element may be the base's: it is copied before it is changed.
        copy = f"INSERT OR IGNORE INTO {self._schema}.element SELECT * FROM element WHERE p = ?"
        self._connection.executemany(copy, [(p,) for p in used])
        self._connection.executemany(f"UPDATE {self._schema}.element SET used = 1 WHERE p = ?", [(p,) for p in used])
        lengths = [(length, p, length) for p, length in self._longest.items()]
        update = f"UPDATE {self._schema}.element SET longest = ? WHERE p = ? AND longest < ?"
        self._connection.executemany(update, lengths)

    def _plan(self, resource_type: str) -> _Plan:
        emits: dict[Kind, _Emit] = {
            Kind.DATE: self._date,
            Kind.REFERENCE: self._reference,
            Kind.QUANTITY: self._quantity,
            Kind.NUMBER: self._quantity,
            Kind.STRING: self._string,
            Kind.URI: self._string,
        }
        plan: _Plan = {}
        for kind, path in elements(resource_type):
            emit = self._token if kind is Kind.TOKEN else emits[kind]
            if kind is Kind.TOKEN and names_a_concept(resource_type, path):
                emit = self._concept
            p = self._interner.element(resource_type, kind, path)
            plan.setdefault(top(path), []).append((emit, p, walk(path)))
        self._plans[resource_type] = plan
        return plan

    def _patients(self, resource_type: str, resource: dict[str, Any]) -> tuple[int, ...]:
        parameter = parameters(resource_type).get("patient")
        found = []
        for path in parameter.elements if parameter else ():
            for value in walk(path)(resource):
                for target in values.targets(value):
                    named = self._resolved(target)
                    if named.type in {"Patient", ""}:
                        found.append(self._interner.target(named))
        return tuple(dict.fromkeys(found)) if found else _NOBODY

    def _resolved(self, target: Target) -> Target:
        return self._names.get(target.id, target) if self._names and not target.type else target

    def _token(self, n: int, p: int, value: Any, patients: tuple[int, ...]) -> None:
        for term in values.terms(value):
            t = self._interner.term(term)
            for patient in patients:
                self._rows["token"].append((n, p, t, patient))

    def _concept(self, n: int, p: int, value: Any, patients: tuple[int, ...]) -> None:
        for term in values.terms(value):
            t = self._interner.term(term)
            if (p, t) not in self._words:
                self._words.add((p, t))
                self._new_words.append((p, t))
            for patient in patients:
                self._rows["token"].append((n, p, t, patient))

    def _reference(self, n: int, p: int, value: Any, patients: tuple[int, ...]) -> None:
        for target in values.targets(value):
            t = self._interner.target(self._resolved(target))
            for patient in patients:
                self._rows["reference"].append((n, p, t, patient))

    def _date(self, n: int, p: int, value: Any, patients: tuple[int, ...]) -> None:
        for low, high, low_utc, high_utc, _ in values.stretches(value):
            if high - low > self._longest.get(p, 0):
                self._longest[p] = high - low
            for patient in patients:
                self._rows["date"].append((n, p, low, high, low_utc, high_utc, patient))

    def _quantity(self, n: int, p: int, value: Any, patients: tuple[int, ...]) -> None:
        for amount in values.amounts(value):
            t = self._interner.term(amount.unit)
            for patient in patients:
                self._rows["quantity"].append((n, p, amount.low, amount.high, t, patient))

    def _string(self, n: int, p: int, value: Any, patients: tuple[int, ...]) -> None:
        for folded, exact in values.strings(value):
            for patient in patients:
                self._rows["string"].append((n, p, folded, exact, patient))
