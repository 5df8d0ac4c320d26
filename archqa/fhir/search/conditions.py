"""Filters as SQL. Each has a test of a resource `r` and, where there is one, a driver: a SELECT of all numbers `n`.

The search begins with the driver that finds the fewest and tests those; the rest of the record is never looked at.
"""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from archqa.fhir.index import reference_graph
from archqa.fhir.profile import Profile
from archqa.fhir.search import comparisons
from archqa.fhir.search.chains import reachable_targets
from archqa.fhir.search.comparisons import SqlClause, any_of
from archqa.fhir.search.query import Filter
from archqa.fhir.values.search_parameters import Kind, Parameter
from archqa.fhir.values.tokens import normalise_text
from archqa.fhir.values.urls import unescape

INDEX_TABLES = {
    Kind.TOKEN: "token",
    Kind.DATE: "date",
    Kind.STRING: "string",
    Kind.REFERENCE: "reference",
    Kind.QUANTITY: "quantity",
    Kind.NUMBER: "quantity",
    Kind.URI: "string",
}


def with_schema(sql: str, schema: str) -> str:
    """SQL for one place: `here.` stands for the schema in which both a resource and its index rows lie.

    That is safe because nothing of a request ever stands in the SQL itself.
    """
    return sql.replace("here.", f"{schema}.")


class CompiledFilter(NamedTuple):
    """What passes a filter. A driver, where there is one, finds exactly what passes the test."""

    test: SqlClause
    driver: SqlClause | None = None
    driver_rank: int = 1
    """A guess at how many pass, before anything is counted: 0 few, 1 some, 2 a whole patient."""
    patient_scoped: bool = False
    """The driver looks at the rows of the search's only patient and no others."""
    is_patient_scope: bool = False
    """The filter asks for that patient and nothing else."""


class FilterCompiler:
    """Puts the filters of a search into SQL. `patients`: the numbers of the only patient it asks for, if it does."""

    def __init__(
        self, connection: sqlite3.Connection, profile: Profile, schemas: tuple[str, ...] = ("main",)
    ) -> None:
        self._connection = connection
        self._schemas = schemas
        self._profile = profile
        self.patients: tuple[int, ...] | None = None
        self._scope: Filter | None = None
        self.notices: list[str] = []

    def scope(self, filters: Iterable[Filter]) -> None:
        """Take note of the patient a search asks for: every index row knows its patient."""
        for each in filters:
            if (
                each.parameter.name == "patient"
                and not each.modifier
                and not each.has
                and self.patients is None
            ):
                patients = [self._only(each.chain)] if each.chain else list(each.values)
                if len(patients) == 1 and patients[0]:
                    where = comparisons.reference_clause(patients[0], ("Patient",))
                    rows = self._connection.execute(
                        f"SELECT x.t FROM target x WHERE {where.sql}", where.args
                    )
                    self.patients, self._scope = tuple(t for (t,) in rows), each

    def _only(self, wanted: Filter) -> str:
        """The id of the only patient that passes a filter; empty if there are more, or none."""
        inner = self._everywhere(self._inner("Patient", wanted))
        found = self._connection.execute(f"{inner.sql} LIMIT 2", inner.args).fetchall()
        return f"Patient/{found[0][0]}" if len(found) == 1 else ""

    def match(self, resource_type: str, wanted: Filter) -> CompiledFilter:
        """One filter of a search of that type."""
        found = self._match(resource_type, wanted)
        return found._replace(is_patient_scope=True) if wanted is self._scope else found

    def _match(self, resource_type: str, wanted: Filter) -> CompiledFilter:
        if wanted.chain is not None:
            return (
                self._has(resource_type, wanted)
                if wanted.has
                else self._chain(resource_type, wanted)
            )
        if wanted.parameter.name == "_id":
            return self._id(resource_type, wanted)
        if wanted.parameter.name == "_lastUpdated":
            return self._updated(wanted)
        if wanted.modifier == "missing":
            return self._missing(resource_type, wanted)
        if wanted.modifier == "not":
            found = self._rows(resource_type, wanted)
            return CompiledFilter(SqlClause(f"NOT {found.test.sql}", found.test.args))
        if wanted.parameter.kind is Kind.STRING and not wanted.modifier and self._profile.helpful:
            return self._strings(resource_type, wanted)
        found = self._rows(resource_type, wanted)
        return (
            found._replace(driver_rank=2)
            if wanted.parameter.name in {"patient", "subject"}
            else found
        )

    def element_ids_sql(self, resource_type: str, parameter: Parameter) -> str:
        """The numbers of a parameter's elements, as SQL: `1, 5`."""
        kind = parameter.kind.value
        paths = ", ".join("?" * len(parameter.elements))
        find = f"SELECT p FROM element WHERE type = ? AND kind = ? AND used AND path IN ({paths})"
        rows = self._connection.execute(find, (resource_type, kind, *parameter.elements))
        return ", ".join(str(p) for (p,) in rows)

    def _rows(self, resource_type: str, wanted: Filter) -> CompiledFilter:
        """What has an index row that passes."""
        numbers = self.element_ids_sql(resource_type, wanted.parameter)
        if wanted.parameter.kind is Kind.TOKEN and wanted.modifier != "text":
            return self._where(Kind.TOKEN, numbers, self._tokens(wanted, numbers))
        where = any_of(
            [self._value(resource_type, wanted, value, numbers) for value in wanted.values]
        )
        return self._where(wanted.parameter.kind, numbers, where)

    def _where(self, kind: Kind, numbers: str, where: SqlClause) -> CompiledFilter:
        table = INDEX_TABLES[kind]
        test = f"EXISTS (SELECT 1 FROM here.{table} x WHERE x.n = r.n AND x.p IN ({numbers}) AND ({where.sql}))"
        scope = (
            ""
            if self.patients is None
            else f" AND x.patient IN ({', '.join(map(str, self.patients))})"
        )
        driver = f"SELECT x.n FROM here.{table} x WHERE x.p IN ({numbers}){scope} AND ({where.sql})"
        return CompiledFilter(
            SqlClause(test, where.args),
            SqlClause(driver, where.args),
            0 if kind is Kind.TOKEN else 1,
            self.patients is not None,
        )

    def _value(self, resource_type: str, wanted: Filter, value: str, numbers: str) -> SqlClause:
        parameter, kind = wanted.parameter, wanted.parameter.kind
        if kind is Kind.TOKEN:
            return self._words(value, numbers)
        if kind is Kind.DATE:
            longest = self._longest(numbers)
            return comparisons.date_clause(
                parameter, value, wall_clock=self._profile.wall_clock, longest=longest
            )
        if kind is Kind.REFERENCE:
            allowed = (wanted.modifier,) if wanted.modifier else parameter.targets
            return comparisons.reference_clause(value, allowed)
        if kind is Kind.QUANTITY:
            return comparisons.quantity_clause(parameter, value)
        if kind is Kind.NUMBER:
            return comparisons.number_clause(parameter, value)
        return comparisons.string_clause(value, "exact" if kind is Kind.URI else wanted.modifier)

    def _tokens(self, wanted: Filter, numbers: str) -> SqlClause:
        """Any of these codes: their terms are looked up first, so that many codes take hardly longer than one."""
        systems = [comparisons.system_clause(value) for value in wanted.values]
        clauses = [clause for clause in systems if clause is not None]
        terms: list[int] = []
        for value, system in zip(wanted.values, systems, strict=True):
            if system is None:
                found = self._token(wanted.parameter, value, numbers)
                terms += (
                    t
                    for (t,) in self._connection.execute(
                        f"SELECT t FROM term x WHERE {found.sql}", found.args
                    )
                )
        if terms or not clauses:
            clauses.append(
                SqlClause(f"x.t IN ({reference_graph.sql_number_list(dict.fromkeys(terms))})")
            )
        return any_of(clauses)

    def _token(self, parameter: Parameter, value: str, numbers: str) -> SqlClause:
        """A code; in the archqa profile, one that occurs nowhere is tried without regard to case and white space."""
        where = comparisons.token_clause(value)
        exact = SqlClause(f"x.t IN (SELECT t FROM term WHERE {where.sql})", where.args)
        if not self._profile.helpful or self._occurs(exact, numbers):
            return exact
        where = comparisons.token_clause(value, folded=True)
        folded = SqlClause(f"x.t IN (SELECT t FROM term WHERE {where.sql})", where.args)
        if self._occurs(folded, numbers):
            self.notices.append(
                f"{parameter.name}: no such code; matched without regard to case and white space."
            )
        elif parameter.name != "identifier":
            by_words = f"{parameter.name}:text=words"
            self.notices.append(
                f"{parameter.name}: no resource has this code. To search by words, write {by_words}."
            )
        return folded

    def _occurs(self, where: SqlClause, numbers: str) -> bool:
        find = SqlClause(
            f"SELECT x.t FROM here.token x WHERE x.p IN ({numbers}) AND {where.sql}", where.args
        )
        clause = self._everywhere(find)
        return self._connection.execute(f"{clause.sql} LIMIT 1", clause.args).fetchone() is not None

    def _everywhere(self, clause: SqlClause) -> SqlClause:
        """The same SELECT in each place where resources lie: the file and, in an overlay, memory."""
        sql = " UNION ALL ".join(with_schema(clause.sql, schema) for schema in self._schemas)
        return SqlClause(sql, clause.args * len(self._schemas))

    def _words(self, value: str, numbers: str) -> SqlClause:
        """`:text`: the display or text contains the words; in the other profiles it starts with them."""
        plain = normalise_text(unescape(value))
        how = "instr({}, ?) > 0" if self._profile.helpful else "substr({}, 1, ?) = ?"
        args = (plain,) if self._profile.helpful else (len(plain), plain)
        words = "(SELECT words FROM term WHERE t = v.t)"
        find = f"SELECT v.t FROM vocabulary v WHERE v.p IN ({numbers}) AND {how.format(words)}"
        return SqlClause(f"x.t IN ({find})", args)

    def _strings(self, resource_type: str, wanted: Filter) -> CompiledFilter:
        """A string by the start of one part or, in the archqa profile, by words that may stand in several parts."""
        numbers = self.element_ids_sql(resource_type, wanted.parameter)
        drivers = []
        for value in wanted.values:
            whole = self._where(Kind.STRING, numbers, comparisons.string_clause(value, "")).driver
            each = [
                self._where(Kind.STRING, numbers, comparisons.word_clause(word)).driver
                for word in _words(value)
            ]
            together = " INTERSECT ".join(clause.sql for clause in each if clause)
            args = tuple(arg for clause in each if clause for arg in clause.args)
            assert whole is not None
            drivers.append(
                SqlClause(f"{whole.sql} UNION SELECT n FROM ({together})", (*whole.args, *args))
            )
        sql = " UNION ".join(clause.sql for clause in drivers)
        return _by_number(SqlClause(sql, tuple(arg for clause in drivers for arg in clause.args)))

    def _missing(self, resource_type: str, wanted: Filter) -> CompiledFilter:
        found = self._where(
            wanted.parameter.kind,
            self.element_ids_sql(resource_type, wanted.parameter),
            SqlClause("1"),
        )
        if wanted.values == ("true",):
            return CompiledFilter(SqlClause(f"NOT {found.test.sql}", found.test.args))
        return found

    def _id(self, resource_type: str, wanted: Filter) -> CompiledFilter:
        if wanted.modifier == "missing":
            return CompiledFilter(SqlClause("0" if wanted.values == ("true",) else "1"))
        ids = tuple(unescape(value).strip().rpartition("|")[2] for value in wanted.values)
        marks = ", ".join("?" * len(ids))
        if wanted.modifier == "not":
            return CompiledFilter(SqlClause(f"r.id NOT IN ({marks})", ids))
        driver = f"SELECT n FROM here.resource WHERE id IN ({marks}) AND type = (SELECT k FROM type WHERE name = ?)"
        return CompiledFilter(
            SqlClause(f"r.id IN ({marks})", ids), SqlClause(driver, (*ids, resource_type)), 0
        )

    def _updated(self, wanted: Filter) -> CompiledFilter:
        if wanted.modifier == "missing":
            return CompiledFilter(SqlClause("0" if wanted.values == ("true",) else "1"))
        clauses = [
            comparisons.date_clause(wanted.parameter, value, wall_clock=False, longest=1)
            for value in wanted.values
        ]
        where = any_of(clauses)
        row = "SELECT r.updated AS low, r.updated + 1 AS high, r.updated AS low_utc, r.updated + 1 AS high_utc"
        return CompiledFilter(
            SqlClause(f"EXISTS (SELECT 1 FROM ({row}) x WHERE {where.sql})", where.args)
        )

    def _chain(self, resource_type: str, wanted: Filter) -> CompiledFilter:
        """What refers to a resource that passes the filter at the end of the chain."""
        assert wanted.chain is not None
        inner = self._everywhere(self._inner(wanted.chain_type, wanted.chain))
        where = f"x.t IN (SELECT t FROM target WHERE type IN (?, '') AND id IN ({inner.sql}))"
        numbers = self.element_ids_sql(resource_type, wanted.parameter)
        return self._where(
            Kind.REFERENCE, numbers, SqlClause(where, (wanted.chain_type, *inner.args))
        )

    def _has(self, resource_type: str, wanted: Filter) -> CompiledFilter:
        """What is referred to by a resource that passes the filter."""
        assert wanted.chain is not None
        numbers = self.element_ids_sql(wanted.chain_type, wanted.parameter)
        inner = self._inner(wanted.chain_type, wanted.chain, "n")
        named = (
            f"SELECT x.t FROM here.reference x WHERE x.p IN ({numbers}) AND x.n IN ({inner.sql})"
        )
        every = self._everywhere(SqlClause(named, inner.args))
        return self._of_ids(resource_type, every)

    def _of_ids(self, resource_type: str, targets: SqlClause) -> CompiledFilter:
        """The resources of a type that are among these targets."""
        ids = f"SELECT id FROM target WHERE type IN (?, '') AND t IN ({targets.sql})"
        args = (resource_type, *targets.args)
        driver = f"SELECT n FROM here.resource WHERE type = (SELECT k FROM type WHERE name = ?) AND id IN ({ids})"
        return CompiledFilter(
            SqlClause(f"r.id IN ({ids})", args), SqlClause(driver, (resource_type, *args))
        )

    def _inner(self, resource_type: str, wanted: Filter, column: str = "id") -> SqlClause:
        """The ids (or numbers) of all resources of a type that pass one filter."""
        scope, self.patients = self.patients, None
        try:
            match = self.match(resource_type, wanted)
        finally:
            self.patients = scope
        test = (
            match.test
            if match.driver is None
            else SqlClause(f"r.n IN ({match.driver.sql})", match.driver.args)
        )
        find = f"SELECT r.{column} FROM here.resource r WHERE r.type = (SELECT k FROM type WHERE name = ?) AND {test.sql}"
        return SqlClause(find, (resource_type, *test.args))

    def reach(self, resource_type: str, patients: tuple[str, ...]) -> CompiledFilter:
        """What a patient's resources refer to, also by way of another of its type (a mix by its ingredients)."""
        where = any_of([comparisons.reference_clause(value, ("Patient",)) for value in patients])
        found = self._connection.execute(
            f"SELECT x.t FROM target x WHERE {where.sql}", where.args
        ).fetchall()
        return self._of_ids(
            resource_type,
            SqlClause(
                reference_graph.sql_number_list(
                    reachable_targets(self._connection, resource_type, [t for (t,) in found])
                )
            ),
        )

    def _longest(self, numbers: str) -> int:
        find = f"SELECT ifnull(max(longest), 0) FROM element WHERE p IN ({numbers})"
        return int(self._connection.execute(find).fetchone()[0])


def _words(value: str) -> list[str]:
    return normalise_text(unescape(value)).split() or [""]


def _by_number(driver: SqlClause) -> CompiledFilter:
    return CompiledFilter(SqlClause(f"r.n IN ({driver.sql})", driver.args), driver)
