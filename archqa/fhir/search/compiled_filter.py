"""A filter in SQL: a predicate on a resource `r` and, if possible, a driver.

A driver is a SELECT of the numbers `n` of all resources that pass. The search starts with the
driver that finds the fewest and applies the predicates to those; the rest of the record is never
looked at.
"""

from typing import NamedTuple

from archqa.fhir.search import value_clauses
from archqa.fhir.search.query import Filter
from archqa.fhir.search.value_clauses import SqlClause, any_of
from archqa.fhir.values.search_parameters import Kind
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

TYPE_ID_SQL = "(SELECT k FROM type WHERE name = ?)"
ALL_RESOURCES = SqlClause("1")
NO_RESOURCES = SqlClause("0")


def with_schema(sql: str, schema: str) -> str:
    """Replace `here.` by the schema that holds both a resource and its index rows.

    Safe because no text of a request ever stands in the SQL itself.
    """
    return sql.replace("here.", f"{schema}.")


def in_all_schemas(select: SqlClause, schemas: tuple[str, ...]) -> SqlClause:
    """Return the same SELECT over all schemas: the file and, in an overlay, memory."""
    sql = " UNION ALL ".join(with_schema(select.sql, schema) for schema in schemas)
    return SqlClause(sql, select.args * len(schemas))


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


def negate(compiled: CompiledFilter) -> CompiledFilter:
    """Compile the resources that a filter does not let through."""
    predicate = compiled.predicate
    return CompiledFilter(SqlClause(f"NOT {predicate.sql}", predicate.args))


def _compile_always_present(search_filter: Filter) -> CompiledFilter:
    """Compile `:missing` for an element that every resource has."""
    if search_filter.values == ("true",):
        return CompiledFilter(NO_RESOURCES)
    return CompiledFilter(ALL_RESOURCES)


def compile_id(resource_type: str, search_filter: Filter) -> CompiledFilter:
    """Compile a filter by `_id`."""
    if search_filter.modifier == "missing":
        return _compile_always_present(search_filter)
    ids = tuple(map(_id_without_system, search_filter.values))
    marks = ", ".join("?" * len(ids))
    if search_filter.modifier == "not":
        return CompiledFilter(SqlClause(f"r.id NOT IN ({marks})", ids))
    driver = f"SELECT n FROM here.resource WHERE id IN ({marks}) AND type = {TYPE_ID_SQL}"
    return CompiledFilter(
        predicate=SqlClause(f"r.id IN ({marks})", ids),
        driver=SqlClause(driver, (*ids, resource_type)),
        driver_rank=0,
    )


def _id_without_system(value: str) -> str:
    token = unescape(value).strip()
    return token.rpartition("|")[2]


def compile_last_updated(search_filter: Filter) -> CompiledFilter:
    """Compile a filter by `_lastUpdated`."""
    if search_filter.modifier == "missing":
        return _compile_always_present(search_filter)
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
    predicate = f"EXISTS (SELECT 1 FROM ({row}) x WHERE {condition.sql})"
    return CompiledFilter(SqlClause(predicate, condition.args))


def compile_targets(resource_type: str, targets: SqlClause) -> CompiledFilter:
    """Compile the resources of a type that are among these targets."""
    where = f"type IN (?, '') AND t IN ({targets.sql})"
    ids = f"SELECT id FROM target WHERE {where}"
    args = (resource_type, *targets.args)
    driver = f"SELECT n FROM here.resource WHERE type = {TYPE_ID_SQL} AND id IN ({ids})"
    return CompiledFilter(
        SqlClause(f"r.id IN ({ids})", args), SqlClause(driver, (resource_type, *args))
    )
