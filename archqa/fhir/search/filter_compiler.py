"""Compile the filters of a search to SQL."""

import json
from collections.abc import Iterable
from dataclasses import replace
from sqlite3 import Connection

from archqa.fhir.index.reference_graph import sql_number_list
from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile
from archqa.fhir.search import value_clauses
from archqa.fhir.search.compiled_filter import (
    ALL_RESOURCES,
    INDEX_TABLES,
    TYPE_ID_SQL,
    CompiledFilter,
    compile_id,
    compile_last_updated,
    compile_targets,
    in_all_schemas,
    negate,
)
from archqa.fhir.search.composites import select_resources
from archqa.fhir.search.query import MAX_STEP_RESOURCES, Filter
from archqa.fhir.search.reachable_targets import reachable_targets
from archqa.fhir.search.shared_resources import (
    has_shared_resources,
    has_unindexed_references,
)
from archqa.fhir.search.token_conditions import TokenConditions
from archqa.fhir.search.value_clauses import SqlClause, any_of, joined_args
from archqa.fhir.values.search_parameters import Kind, Parameter
from archqa.fhir.values.text import normalise_text
from archqa.fhir.values.urls import unescape


class FilterCompiler:
    """Compile the filters of a search.

    `patients` are the target numbers of the only patient the search asks for, None otherwise.
    """

    def __init__(
        self, connection: Connection, profile: Profile, schemas: tuple[str, ...] = ("main",)
    ) -> None:
        self._connection = connection
        self._schemas = schemas
        self._profile = profile
        self.patients: tuple[int, ...] | None = None
        self._scope: Filter | None = None
        self.notices: list[str] = []
        self._tokens = TokenConditions(connection, profile, schemas, self.notices)

    def set_patient_scope(self, resource_type: str, filters: Iterable[Filter]) -> None:
        """Find the only patient that the filters ask for: every index row has its patient."""
        if has_shared_resources(self._connection, resource_type):
            return
        for patient_filter in filters:
            patient = self._only_patient(patient_filter)
            if patient:
                self.patients = tuple(self._patient_targets([patient]))
                self._scope = patient_filter
                return

    def _only_patient(self, patient_filter: Filter) -> str:
        """Return the reference to the only patient of a filter; empty if there is none."""
        is_plain = not patient_filter.modifier and not patient_filter.is_reverse_chain
        if patient_filter.parameter.name != "patient" or not is_plain:
            return ""
        if patient_filter.chain is None:
            is_single = len(patient_filter.values) == 1
            return patient_filter.values[0] if is_single else ""
        select = self._select_passing("Patient", patient_filter.chain)
        select = in_all_schemas(select, self._schemas)
        rows = self._connection.execute(f"{select.sql} LIMIT 2", select.args).fetchall()
        if len(rows) != 1:
            return ""
        (patient_id,) = rows[0]
        return f"Patient/{patient_id}"

    def _patient_targets(self, patients: Iterable[str]) -> list[int]:
        clauses = []
        for patient in patients:
            clause = value_clauses.reference_clause(patient, ("Patient",))
            clauses.append(clause)
        where = any_of(clauses)
        sql = f"SELECT x.t FROM target x WHERE {where.sql}"
        return [t for (t,) in self._connection.execute(sql, where.args)]

    def compile(self, resource_type: str, search_filter: Filter) -> CompiledFilter:
        """Compile one filter of a search of that type."""
        compiled = self._compile(resource_type, search_filter)
        if search_filter is self._scope:
            return compiled._replace(is_patient_scope=True)
        return compiled

    def _compile(self, resource_type: str, search_filter: Filter) -> CompiledFilter:
        parameter = search_filter.parameter
        if search_filter.is_reverse_chain:
            return self._compile_reverse_chain(resource_type, search_filter)
        if search_filter.chain is not None:
            return self._compile_chain(resource_type, search_filter)
        if parameter.name == "_id":
            return compile_id(resource_type, search_filter)
        if parameter.name == "_lastUpdated":
            return compile_last_updated(search_filter)
        if search_filter.modifier == "missing":
            return self._compile_missing(resource_type, search_filter)
        if parameter.kind is Kind.COMPOSITE:
            return self._compile_composite(resource_type, search_filter)
        return self._compile_comparison(resource_type, search_filter)

    def _compile_comparison(self, resource_type: str, search_filter: Filter) -> CompiledFilter:
        parameter = search_filter.parameter
        if parameter.kind is Kind.REFERENCE:
            self._note_unindexed(resource_type)
        if search_filter.modifier == "not":
            return negate(self._compile_values(resource_type, search_filter))
        is_plain_string = parameter.kind is Kind.STRING and not search_filter.modifier
        if is_plain_string and self._profile.extensions_enabled:
            return self._compile_words(resource_type, search_filter)
        compiled = self._compile_values(resource_type, search_filter)
        if parameter.name in {"patient", "subject"}:
            return compiled._replace(driver_rank=2)
        return compiled

    def _note_unindexed(self, resource_type: str) -> None:
        if has_unindexed_references(self._connection, resource_type):
            self.notices.append(
                f"Not all references of each {resource_type} by urn:uuid: are in the index, so"
                " matches may be missing; fhir load said which."
            )

    def element_ids_sql(self, resource_type: str, parameter: Parameter) -> str:
        """Return the numbers of a parameter's elements as SQL: `1, 5`."""
        marks = ", ".join("?" * len(parameter.elements))
        where = f"type = ? AND kind = ? AND used AND path IN ({marks})"
        args = (resource_type, parameter.kind.value, *parameter.elements)
        rows = self._connection.execute(f"SELECT p FROM element WHERE {where}", args)
        return sql_number_list(p for (p,) in rows)

    def _compile_values(self, resource_type: str, search_filter: Filter) -> CompiledFilter:
        """Compile a filter that an index row must pass."""
        kind = search_filter.parameter.kind
        element_ids = self.element_ids_sql(resource_type, search_filter.parameter)
        if kind is Kind.TOKEN and search_filter.modifier != "text":
            condition = self._tokens.any_of_codes(search_filter, element_ids)
        else:
            condition = self._any_value(search_filter, element_ids)
        return self._with_row(kind, element_ids, condition)

    def _compile_composite(self, resource_type: str, search_filter: Filter) -> CompiledFilter:
        """Compile a filter whose halves the same item must pass, such as one component."""
        parameter = search_filter.parameter
        selects = []
        for value in search_filter.values:
            conditions = self._half_conditions(resource_type, parameter, value)
            for group in parameter.groups:
                halves = []
                for number, condition in enumerate(conditions):
                    half = parameter.half_in(group, number)
                    element_ids = self.element_ids_sql(resource_type, half)
                    halves.append((half.kind, element_ids, condition))
                selects.append(select_resources(group, halves, self._patient_scope_sql()))
        sql = " UNION ".join(select.sql for select in selects)
        driver = SqlClause(sql, joined_args(selects))
        return CompiledFilter(
            SqlClause(f"r.n IN ({driver.sql})", driver.args),
            driver,
            patient_scoped=self.patients is not None,
        )

    def _half_conditions(
        self, resource_type: str, parameter: Parameter, value: str
    ) -> list[SqlClause]:
        """Return the conditions of the halves. They are the same for all groups."""
        conditions = []
        for number, half_value in enumerate(value_clauses.split_halves(parameter, value)):
            paths: list[str] = []
            for group in parameter.groups:
                paths += parameter.half_in(group, number).elements
            half = replace(parameter.halves[number], elements=tuple(paths))
            element_ids = self.element_ids_sql(resource_type, half)
            half_filter = Filter(half, (half_value,))
            if half.kind is Kind.TOKEN:
                conditions.append(self._tokens.any_of_codes(half_filter, element_ids))
            else:
                conditions.append(self._any_value(half_filter, element_ids))
        return conditions

    def _any_value(self, search_filter: Filter, element_ids: str) -> SqlClause:
        conditions = []
        for value in search_filter.values:
            condition = self._value_condition(search_filter, value, element_ids)
            conditions.append(condition)
        return any_of(conditions)

    def _with_row(
        self,
        kind: Kind,
        element_ids: str,
        condition: SqlClause,
    ) -> CompiledFilter:
        """Compile the existence of an index row that passes a condition."""
        table = INDEX_TABLES[kind]
        where = f"x.n = r.n AND x.p IN ({element_ids}) AND ({condition.sql})"
        predicate = f"EXISTS (SELECT 1 FROM here.{table} x WHERE {where})"
        return CompiledFilter(
            predicate=SqlClause(predicate, condition.args),
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
        sql = f"SELECT x.n FROM here.{INDEX_TABLES[kind]} x WHERE {where} AND ({condition.sql})"
        return SqlClause(sql, condition.args)

    def _patient_scope_sql(self) -> str:
        """Return the condition that an index row is about the search's only patient, if any."""
        if self.patients is None:
            return ""
        return f" AND x.patient IN ({sql_number_list(self.patients)})"

    def _value_condition(
        self,
        search_filter: Filter,
        value: str,
        element_ids: str,
    ) -> SqlClause:
        parameter, modifier = search_filter.parameter, search_filter.modifier
        match parameter.kind:
            case Kind.TOKEN:
                return self._tokens.text(value, element_ids)
            case Kind.DATE:
                return value_clauses.date_clause(
                    parameter,
                    value,
                    wall_clock=self._profile.wall_clock,
                    max_duration=self._max_duration(element_ids),
                )
            case Kind.REFERENCE:
                return value_clauses.reference_clause(value, _referenced_types(search_filter))
            case Kind.QUANTITY | Kind.NUMBER:
                return value_clauses.amount_clause(parameter, value)
            case Kind.URI:
                return value_clauses.uri_clause(value, modifier)
            case Kind.STRING:
                return value_clauses.string_clause(value, modifier)
        raise AssertionError("The halves of a composite are compiled one by one.")

    def _compile_words(self, resource_type: str, search_filter: Filter) -> CompiledFilter:
        """Compile a string: the start of a part, or words that may stand in several parts."""
        element_ids = self.element_ids_sql(resource_type, search_filter.parameter)
        drivers = [self._words_driver(value, element_ids) for value in search_filter.values]
        sql = " UNION ".join(driver.sql for driver in drivers)
        driver = SqlClause(sql, joined_args(drivers))
        predicate = SqlClause(f"r.n IN ({driver.sql})", driver.args)
        return CompiledFilter(predicate, driver)

    def _words_driver(self, value: str, element_ids: str) -> SqlClause:
        starts_with_value = value_clauses.string_clause(value, "")
        start_driver = self._driver(Kind.STRING, element_ids, starts_with_value)
        words = normalise_text(unescape(value)).split()
        word_drivers = []
        for word in words or [""]:
            has_word = value_clauses.word_clause(word)
            word_drivers.append(self._driver(Kind.STRING, element_ids, has_word))
        all_words = " INTERSECT ".join(driver.sql for driver in word_drivers)
        sql = f"{start_driver.sql} UNION SELECT n FROM ({all_words})"
        return SqlClause(sql, joined_args([start_driver, *word_drivers]))

    def _compile_missing(self, resource_type: str, search_filter: Filter) -> CompiledFilter:
        parameter = search_filter.parameter
        element_ids = self.element_ids_sql(resource_type, parameter)
        present = self._with_row(parameter.kind, element_ids, ALL_RESOURCES)
        if search_filter.values == ("true",):
            return negate(present)
        return present

    def _compile_chain(self, resource_type: str, search_filter: Filter) -> CompiledFilter:
        """Compile what refers to a resource that passes the filter at the end of the chain."""
        chain_type, chain = search_filter.chain_type, search_filter.chain
        assert chain is not None
        passing = in_all_schemas(self._passing(chain_type, chain), self._schemas)
        where = f"type IN (?, '') AND id IN ({passing.sql})"
        condition = SqlClause(
            f"x.t IN (SELECT t FROM target WHERE {where})", (chain_type, *passing.args)
        )
        element_ids = self.element_ids_sql(resource_type, search_filter.parameter)
        return self._with_row(Kind.REFERENCE, element_ids, condition)

    def _compile_reverse_chain(self, resource_type: str, search_filter: Filter) -> CompiledFilter:
        """Compile what a resource that passes the filter refers to."""
        chain_type, chain = search_filter.chain_type, search_filter.chain
        assert chain is not None
        element_ids = self.element_ids_sql(chain_type, search_filter.parameter)
        passing = self._passing(chain_type, chain, "n")
        where = f"x.p IN ({element_ids}) AND x.n IN ({passing.sql})"
        targets = SqlClause(f"SELECT x.t FROM here.reference x WHERE {where}", passing.args)
        return compile_targets(resource_type, in_all_schemas(targets, self._schemas))

    def _passing(self, resource_type: str, search_filter: Filter, column: str = "id") -> SqlClause:
        """Select the ids (or numbers) of all resources of a type that pass one filter.

        Those that pass a chain are looked up at once: SQLite does not parse deeper nesting. Raises
        `FhirError` for too many.
        """
        select = self._select_passing(resource_type, search_filter, column)
        if search_filter.chain is None:
            return select
        select = in_all_schemas(select, self._schemas)
        limit = f"LIMIT {MAX_STEP_RESOURCES + 1}"
        rows = self._connection.execute(f"SELECT * FROM ({select.sql}) {limit}", select.args)
        values = [value for (value,) in rows]
        if len(values) > MAX_STEP_RESOURCES:
            problem = f"A step of the chain finds more than {MAX_STEP_RESOURCES} {resource_type}s."
            raise FhirError(f"{problem} Ask for fewer at its end.", 400, "too-costly")
        return SqlClause("SELECT value FROM json_each(?)", (json.dumps(values),))

    def _select_passing(
        self, resource_type: str, search_filter: Filter, column: str = "id"
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
            condition = SqlClause(f"r.n IN ({compiled.driver.sql})", compiled.driver.args)
        where = f"r.type = {TYPE_ID_SQL} AND {condition.sql}"
        sql = f"SELECT r.{column} FROM here.resource r WHERE {where}"
        return SqlClause(sql, (resource_type, *condition.args))

    def compile_referenced_by(
        self, resource_type: str, patients: tuple[str, ...]
    ) -> CompiledFilter:
        """Compile what the resources of these patients refer to.

        References within the type are followed, such as from a mix to its ingredients.
        """
        patient_targets = self._patient_targets(patients)
        targets = reachable_targets(self._connection, resource_type, patient_targets)
        return compile_targets(resource_type, SqlClause(sql_number_list(targets)))

    def _max_duration(self, element_ids: str) -> int:
        sql = f"SELECT ifnull(max(longest), 0) FROM element WHERE p IN ({element_ids})"
        return int(self._connection.execute(sql).fetchone()[0])


def _referenced_types(search_filter: Filter) -> tuple[str, ...]:
    """Return the types that a reference may have; none means any."""
    if search_filter.modifier:
        return (search_filter.modifier,)
    return search_filter.parameter.targets
