r"""Compile the filters of a search to SQL: a predicate on a resource `r` and, if possible, a driver.

A driver is a SELECT of the numbers `n` of all resources that pass. The search starts with the
driver that finds the fewest and applies the predicates to those; the rest of the record is never
looked at.

Sources: hl7.org/fhir/R4/search.html#token, #combining (composites: the halves, parted by `$`, must
hold in the same item, in one component and not in two; `\$` is the character).
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from sqlite3 import Connection
from typing import NamedTuple

from archqa.fhir.index.schema import RESOURCE_OF_ITEM_SQL, SHARED, UNINDEXED
from archqa.fhir.index.sql import first_cell, first_column, sql_marks, sql_number_list
from archqa.fhir.profile import Profile
from archqa.fhir.record import FhirError
from archqa.fhir.search import value_clauses
from archqa.fhir.search.compartments import patient_targets, reachable_targets
from archqa.fhir.search.query import MAX_STEP_RESOURCES, Filter
from archqa.fhir.search.value_clauses import SqlClause, any_of, joined_args
from archqa.fhir.values.search_parameters import THE_RESOURCE, Kind, Parameter
from archqa.fhir.values.text import normalise_text
from archqa.fhir.values.urls import unescape

INDEX_TABLES = {
    Kind.TOKEN: "token",
    Kind.DATE: "date",
    Kind.STRING: "string",
    Kind.REFERENCE: "reference",
    Kind.QUANTITY: "quantity",
    Kind.NUMBER: "quantity",
    Kind.URI: "token",
}

_TYPE_ID_SQL = "(SELECT k FROM type WHERE name = ?)"
_ALL_RESOURCES = SqlClause("1")
_NO_RESOURCES = SqlClause("0")


def with_schema(sql: str, schema: str) -> str:
    """Replace `here.` by the schema that holds both a resource and its index rows.

    Safe because no text of a request ever stands in the SQL itself.
    """
    return sql.replace("here.", f"{schema}.")


class CompiledFilter(NamedTuple):
    """A filter in SQL. Its driver, if any, finds exactly what passes the predicate."""

    predicate: SqlClause
    driver: SqlClause | None = None
    driver_rank: int = 1
    """A guess at the size of the driver before counting: 0 few, 1 some, 2 a whole patient."""
    patient_scoped: bool = False
    """The driver looks at the rows of the search's only patient and no others."""
    is_patient_scope: bool = False
    """The filter asks for that patient and nothing else."""


def _negate(compiled: CompiledFilter) -> CompiledFilter:
    """Compile the resources that a filter does not let through."""
    predicate = compiled.predicate
    return CompiledFilter(SqlClause(f"NOT {predicate.sql}", predicate.args))


class FilterCompiler:
    """Compile the filters of a search; `notices` say how they were read.

    `patients` are the target numbers of the only patient the search asks for, `patient_filter` the
    filter that asks for it; both are None otherwise.
    """

    def __init__(
        self,
        connection: Connection,
        profile: Profile,
        schemas: tuple[str, ...] = ("main",),
    ) -> None:
        self._connection = connection
        self._schemas = schemas
        self._profile = profile
        self.patients: tuple[int, ...] | None = None
        self.patient_filter: Filter | None = None
        self.notices: list[str] = []

    def set_patient_scope(self, resource_type: str, filters: Iterable[Filter]) -> None:
        """Find the only patient that the filters ask for: every index row has its patient."""
        if self._has_setting(f"{SHARED}{resource_type}"):
            return
        for search_filter in filters:
            is_plain = not search_filter.modifier and not search_filter.is_reverse_chain
            if search_filter.parameter.name != "patient" or not is_plain:
                continue
            patients = search_filter.values
            if search_filter.chain is not None:
                select = self._select_passing("Patient", search_filter.chain)
                select = self._in_all_schemas(select)
                rows = self._connection.execute(f"{select.sql} LIMIT 2", select.args)
                patients = tuple(f"Patient/{patient_id}" for (patient_id,) in rows)
            if len(patients) == 1:
                self.patients = tuple(patient_targets(self._connection, patients))
                self.patient_filter = search_filter
                return

    def compile(self, resource_type: str, search_filter: Filter) -> CompiledFilter:
        """Compile one filter of a search of that type."""
        parameter = search_filter.parameter
        if search_filter.is_reverse_chain:
            return self._compile_reverse_chain(resource_type, search_filter)
        if search_filter.chain is not None:
            return self._compile_chain(resource_type, search_filter)
        if parameter.name in {"_id", "_lastUpdated"}:
            return _compile_common(resource_type, search_filter)
        if search_filter.modifier == "missing":
            element_ids = self.element_ids_sql(resource_type, parameter)
            present = self._with_row(parameter.kind, element_ids, _ALL_RESOURCES)
            return _negate(present) if search_filter.values == ("true",) else present
        if parameter.kind is Kind.COMPOSITE:
            return self._compile_composite(resource_type, search_filter)
        if parameter.kind is Kind.REFERENCE and self._has_setting(
            f"{UNINDEXED}{resource_type}"
        ):
            self.notices.append(
                f"Not all references of each {resource_type} by urn:uuid: are in the index, so"
                " matches may be missing; fhir load said which."
            )
        is_plain_string = parameter.kind is Kind.STRING and not search_filter.modifier
        if is_plain_string and self._profile.extensions_enabled:
            return self._compile_words(resource_type, search_filter)
        element_ids = self.element_ids_sql(resource_type, parameter)
        condition = self._any_value(search_filter, element_ids)
        compiled = self._with_row(parameter.kind, element_ids, condition)
        if search_filter.modifier == "not":
            return _negate(compiled)
        if parameter.name in {"patient", "subject"}:
            return compiled._replace(driver_rank=2)
        return compiled

    def _has_setting(self, name: str) -> bool:
        sql = "SELECT 1 FROM setting WHERE name = ?"
        return first_cell(self._connection, sql, (name,)) is not None

    def element_ids_sql(self, resource_type: str, parameter: Parameter) -> str:
        """Return the numbers of a parameter's elements as SQL: `1, 5`."""
        paths = sql_marks(parameter.elements)
        where = f"type = ? AND kind = ? AND used AND path IN ({paths})"
        args = (resource_type, parameter.kind.value, *parameter.elements)
        sql = f"SELECT p FROM element WHERE {where}"
        return sql_number_list(first_column(self._connection, sql, args))

    def _in_all_schemas(self, select: SqlClause) -> SqlClause:
        """Return the same SELECT over all schemas: the file and, in an overlay, memory."""
        sql = " UNION ALL ".join(
            with_schema(select.sql, schema) for schema in self._schemas
        )
        return SqlClause(sql, select.args * len(self._schemas))

    def _with_row(
        self,
        kind: Kind,
        element_ids: str,
        condition: SqlClause,
    ) -> CompiledFilter:
        """Compile the existence of an index row that passes a condition."""
        table = INDEX_TABLES[kind]
        where = f"x.n = r.n AND x.p IN ({element_ids}) AND ({condition.sql})"
        return CompiledFilter(
            predicate=SqlClause(
                f"EXISTS (SELECT 1 FROM here.{table} x WHERE {where})", condition.args
            ),
            driver=self._driver(kind, element_ids, condition),
            driver_rank=0 if kind is Kind.TOKEN else 1,
            patient_scoped=self.patients is not None,
        )

    def _driver(
        self,
        kind: Kind,
        element_ids: str,
        condition: SqlClause,
    ) -> SqlClause:
        where = f"x.p IN ({element_ids}){self._patient_scope_sql()}"
        return SqlClause(
            f"SELECT x.n FROM here.{INDEX_TABLES[kind]} x WHERE {where} AND ({condition.sql})",
            condition.args,
        )

    def _patient_scope_sql(self) -> str:
        """Return the condition that an index row is about the search's only patient, if any."""
        if self.patients is None:
            return ""
        return f" AND x.patient IN ({sql_number_list(self.patients)})"

    def _any_value(self, search_filter: Filter, element_ids: str) -> SqlClause:
        """Return the condition on an index row for any of the values of a filter."""
        parameter, modifier = search_filter.parameter, search_filter.modifier
        if parameter.kind is Kind.TOKEN and modifier != "text":
            return self._any_code(search_filter, element_ids)
        targets = (modifier,) if modifier else parameter.targets
        conditions = []
        for value in search_filter.values:
            match parameter.kind:
                case Kind.TOKEN:
                    # `:text`: outside of the archqa profile the words must start with the value.
                    folded = normalise_text(unescape(value))
                    words = "(SELECT words FROM term WHERE t = v.t)"
                    if self._profile.extensions_enabled:
                        fits = SqlClause(f"instr({words}, ?) > 0", (folded,))
                    else:
                        fits = SqlClause(
                            f"substr({words}, 1, ?) = ?", (len(folded), folded)
                        )
                    where = f"v.p IN ({element_ids}) AND {fits.sql}"
                    terms = f"SELECT v.t FROM vocabulary v WHERE {where}"
                    condition = SqlClause(f"x.t IN ({terms})", fits.args)
                case Kind.DATE:
                    sql = f"SELECT ifnull(max(longest), 0) FROM element WHERE p IN ({element_ids})"
                    condition = value_clauses.date_clause(
                        parameter,
                        value,
                        wall_clock=self._profile.wall_clock,
                        max_duration=first_cell(self._connection, sql),
                    )
                case Kind.REFERENCE:
                    condition = value_clauses.reference_clause(value, targets)
                case Kind.QUANTITY | Kind.NUMBER:
                    condition = value_clauses.amount_clause(parameter, value)
                case Kind.URI:
                    condition = value_clauses.uri_clause(value, modifier)
                case _:
                    condition = value_clauses.string_clause(value, modifier)
            conditions.append(condition)
        return any_of(conditions)

    def _any_code(self, search_filter: Filter, element_ids: str) -> SqlClause:
        """Return a condition for any of these codes.

        The terms are looked up first, so that many codes take hardly longer than one.
        """
        clauses: list[SqlClause] = []
        terms: dict[int, None] = {}
        for value in search_filter.values:
            system = value_clauses.system_clause(value)
            if system is not None:
                clauses.append(system)
                continue
            condition = self._code_condition(
                search_filter.parameter, value, element_ids
            )
            for (t,) in self._connection.execute(
                f"SELECT t FROM term x WHERE {condition.sql}", condition.args
            ):
                terms[t] = None
        if terms or not clauses:
            clauses.append(SqlClause(f"x.t IN ({sql_number_list(terms)})"))
        return any_of(clauses)

    def _code_condition(
        self, parameter: Parameter, value: str, element_ids: str
    ) -> SqlClause:
        """Return a condition for a code.

        In the archqa profile, a code that does not occur is tried without regard to case.
        """
        exact = value_clauses.term_clause(value_clauses.token_clause(value))
        if not self._profile.extensions_enabled or self._occurs(exact, element_ids):
            return exact
        folded = value_clauses.term_clause(
            value_clauses.token_clause(value, ignore_case=True)
        )
        name = parameter.name
        if self._occurs(folded, element_ids):
            self.notices.append(
                f"{name}: no such code; matched without regard to case and white space."
            )
        elif name.endswith(":identifier"):
            chained = name.replace(":", ".")
            self.notices.append(
                f"{name} looks at the identifier in the reference itself, and none is like this. To"
                f" search by the identifier of the resource, write {chained}=…"
            )
        elif not (parameter.is_identifier or name.endswith(":of-type")):
            self.notices.append(
                f"{name}: no resource has this code. To search by words, write {name}:text=words."
            )
        return folded

    def _occurs(self, condition: SqlClause, element_ids: str) -> bool:
        where = f"x.p IN ({element_ids}) AND {condition.sql}"
        select = SqlClause(
            f"SELECT x.t FROM here.token x WHERE {where}", condition.args
        )
        select = self._in_all_schemas(select)
        sql = f"{select.sql} LIMIT 1"
        return first_cell(self._connection, sql, select.args) is not None

    def _compile_composite(
        self, resource_type: str, search_filter: Filter
    ) -> CompiledFilter:
        """Compile a filter whose halves the same item must pass, such as one component."""
        parameter = search_filter.parameter
        selects = []
        for value in search_filter.values:
            conditions = []
            for number, half_value in enumerate(
                value_clauses.split_halves(parameter, value)
            ):
                # The condition of a half is the same for the items of all groups.
                paths: list[str] = []
                for group in parameter.groups:
                    paths += parameter.half_in(group, number).elements
                half = replace(parameter.halves[number], elements=tuple(paths))
                element_ids = self.element_ids_sql(resource_type, half)
                conditions.append(
                    self._any_value(Filter(half, (half_value,)), element_ids)
                )
            for group in parameter.groups:
                halves = []
                for number, condition in enumerate(conditions):
                    half = parameter.half_in(group, number)
                    element_ids = self.element_ids_sql(resource_type, half)
                    halves.append((half.kind, element_ids, condition))
                selects.append(self._select_with_item(group, halves))
        sql = " UNION ".join(select.sql for select in selects)
        driver = SqlClause(sql, joined_args(selects))
        return CompiledFilter(
            SqlClause(f"r.n IN ({driver.sql})", driver.args),
            driver,
            patient_scoped=self.patients is not None,
        )

    def _select_with_item(
        self, group: str, halves: list[tuple[Kind, str, SqlClause]]
    ) -> SqlClause:
        """Select the resources with an item of a group whose index rows pass all conditions.

        A half is the kind of its index, its elements as SQL, and the condition.
        """
        (kind, element_ids, condition), *others = halves
        scope = self._patient_scope_sql()
        where = f"x.p IN ({element_ids}){scope} AND ({condition.sql})"
        items = f"SELECT DISTINCT x.n FROM here.{INDEX_TABLES[kind]} x WHERE {where}"
        clauses = [condition]
        tests = []
        for kind, element_ids, condition in others:
            where = f"x.n = y.n AND x.p IN ({element_ids}) AND ({condition.sql})"
            tests.append(
                f"EXISTS (SELECT 1 FROM here.{INDEX_TABLES[kind]} x WHERE {where})"
            )
            clauses.append(condition)
        number = "y.n" if group == THE_RESOURCE else RESOURCE_OF_ITEM_SQL.format("y.n")
        return SqlClause(
            f"SELECT {number} AS n FROM ({items}) y WHERE {' AND '.join(tests)}",
            joined_args(clauses),
        )

    def _compile_words(
        self, resource_type: str, search_filter: Filter
    ) -> CompiledFilter:
        """Compile a string: the start of a part, or words that may stand in several parts."""
        element_ids = self.element_ids_sql(resource_type, search_filter.parameter)
        drivers = []
        for value in search_filter.values:
            starts_with_value = value_clauses.string_clause(value, "")
            start_driver = self._driver(Kind.STRING, element_ids, starts_with_value)
            word_drivers = []
            for word in normalise_text(unescape(value)).split() or [""]:
                has_word = value_clauses.word_clause(word)
                word_drivers.append(self._driver(Kind.STRING, element_ids, has_word))
            all_words = " INTERSECT ".join(driver.sql for driver in word_drivers)
            sql = f"{start_driver.sql} UNION SELECT n FROM ({all_words})"
            drivers.append(SqlClause(sql, joined_args([start_driver, *word_drivers])))
        sql = " UNION ".join(driver.sql for driver in drivers)
        driver = SqlClause(sql, joined_args(drivers))
        return CompiledFilter(SqlClause(f"r.n IN ({driver.sql})", driver.args), driver)

    def _compile_chain(
        self, resource_type: str, search_filter: Filter
    ) -> CompiledFilter:
        """Compile what refers to a resource that passes the filter at the end of the chain."""
        chain_type, chain = search_filter.chain_type, search_filter.chain
        assert chain is not None
        passing = self._in_all_schemas(self._passing(chain_type, chain, "id"))
        where = f"type IN (?, '') AND id IN ({passing.sql})"
        condition = SqlClause(
            f"x.t IN (SELECT t FROM target WHERE {where})", (chain_type, *passing.args)
        )
        element_ids = self.element_ids_sql(resource_type, search_filter.parameter)
        return self._with_row(Kind.REFERENCE, element_ids, condition)

    def _compile_reverse_chain(
        self, resource_type: str, search_filter: Filter
    ) -> CompiledFilter:
        """Compile what a resource that passes the filter refers to."""
        chain_type, chain = search_filter.chain_type, search_filter.chain
        assert chain is not None
        element_ids = self.element_ids_sql(chain_type, search_filter.parameter)
        passing = self._passing(chain_type, chain, "n")
        where = f"x.p IN ({element_ids}) AND x.n IN ({passing.sql})"
        targets = SqlClause(
            f"SELECT x.t FROM here.reference x WHERE {where}", passing.args
        )
        return _compile_targets(resource_type, self._in_all_schemas(targets))

    def _passing(
        self, resource_type: str, search_filter: Filter, column: str
    ) -> SqlClause:
        """Select the ids (or numbers) of all resources of a type that pass one filter.

        Those that pass a chain are looked up at once: SQLite does not parse deeper nesting. Raises
        `FhirError` for too many.
        """
        select = self._select_passing(resource_type, search_filter, column)
        if search_filter.chain is None:
            return select
        select = self._in_all_schemas(select)
        limit = f"LIMIT {MAX_STEP_RESOURCES + 1}"
        sql = f"SELECT * FROM ({select.sql}) {limit}"
        values = first_column(self._connection, sql, select.args)
        if len(values) > MAX_STEP_RESOURCES:
            problem = f"A step of the chain finds more than {MAX_STEP_RESOURCES} {resource_type}s."
            raise FhirError(f"{problem} Ask for fewer at its end.", 400, "too-costly")
        return SqlClause("SELECT value FROM json_each(?)", (json.dumps(values),))

    def _select_passing(
        self,
        resource_type: str,
        search_filter: Filter,
        column: str = "id",
    ) -> SqlClause:
        """Select the ids (or numbers) of all resources of a type that pass one filter."""
        # The filter concerns other resources than the search: its patient does not apply to them.
        patients, self.patients = self.patients, None
        try:
            compiled = self.compile(resource_type, search_filter)
        finally:
            self.patients = patients
        condition = compiled.predicate
        if compiled.driver is not None:
            condition = SqlClause(
                f"r.n IN ({compiled.driver.sql})", compiled.driver.args
            )
        where = f"r.type = {_TYPE_ID_SQL} AND {condition.sql}"
        return SqlClause(
            f"SELECT r.{column} FROM here.resource r WHERE {where}",
            (resource_type, *condition.args),
        )

    def compile_referenced_by(
        self, resource_type: str, patients: tuple[str, ...]
    ) -> CompiledFilter:
        """Compile what the resources of these patients refer to.

        References within the type are followed, such as from a mix to its ingredients.
        """
        targets = reachable_targets(
            self._connection, resource_type, patient_targets(self._connection, patients)
        )
        return _compile_targets(resource_type, SqlClause(sql_number_list(targets)))


def _compile_common(resource_type: str, search_filter: Filter) -> CompiledFilter:
    """Compile a filter by `_id` or `_lastUpdated`, which every resource has."""
    if search_filter.modifier == "missing":
        is_missing = search_filter.values == ("true",)
        return CompiledFilter(_NO_RESOURCES if is_missing else _ALL_RESOURCES)
    if search_filter.parameter.name == "_id":
        ids = tuple(
            unescape(value).strip().rpartition("|")[2] for value in search_filter.values
        )
        marks = sql_marks(ids)
        if search_filter.modifier == "not":
            return CompiledFilter(SqlClause(f"r.id NOT IN ({marks})", ids))
        return CompiledFilter(
            predicate=SqlClause(f"r.id IN ({marks})", ids),
            driver=SqlClause(
                f"SELECT n FROM here.resource WHERE id IN ({marks}) AND type = {_TYPE_ID_SQL}",
                (*ids, resource_type),
            ),
            driver_rank=0,
        )
    clauses = []
    for value in search_filter.values:
        clause = value_clauses.date_clause(
            search_filter.parameter,
            value,
            wall_clock=False,
            max_duration=1,
        )
        clauses.append(clause)
    condition = any_of(clauses)
    row = (
        "SELECT r.updated AS low, r.updated + 1 AS high,"
        " r.updated AS low_utc, r.updated + 1 AS high_utc"
    )
    return CompiledFilter(
        SqlClause(
            f"EXISTS (SELECT 1 FROM ({row}) x WHERE {condition.sql})", condition.args
        )
    )


def _compile_targets(resource_type: str, targets: SqlClause) -> CompiledFilter:
    """Compile the resources of a type that are among these targets."""
    where = f"type IN (?, '') AND t IN ({targets.sql})"
    ids = f"SELECT id FROM target WHERE {where}"
    args = (resource_type, *targets.args)
    return CompiledFilter(
        SqlClause(f"r.id IN ({ids})", args),
        SqlClause(
            f"SELECT n FROM here.resource WHERE type = {_TYPE_ID_SQL} AND id IN ({ids})",
            (resource_type, *args),
        ),
    )
