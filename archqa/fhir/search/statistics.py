"""Counts of a record's resources by type, of their codes, and the units of these."""

from collections.abc import Iterable, Sequence
from sqlite3 import Connection

from archqa.fhir.index.sql import first_column, sql_number_list
from archqa.fhir.record import CodeCount
from archqa.fhir.search.compartments import (
    has_owner,
    owner_elements,
    patient_resources,
    patient_targets,
    resources_reached,
    resources_shared_by,
)
from archqa.fhir.search.filter_compiler import with_schema
from archqa.fhir.values.search_parameters import is_concept_element

_MAX_RESULTS = 20_000
"""Results of a code whose units are looked at: those of a frequent code have the same few units."""

_COLUMNS = (
    "e.path, ifnull(k.system, ''), ifnull(k.code, ''), ifnull(k.display, ''), times"
)
_ORDER = "ORDER BY times DESC, k.display, k.code, k.system, e.path"


def count_resources(connection: Connection, patient: str | None) -> dict[str, int]:
    """Return the resources of each type, in all or of one patient (the patient included)."""
    if patient is None:
        sql = (
            "SELECT k.name, count(*) FROM resource r JOIN type k ON k.k = r.type"
            " GROUP BY k.name ORDER BY k.name"
        )
        return dict(connection.execute(sql))
    types = owner_elements(connection)
    targets = sql_number_list(patient_targets(connection, [patient]))
    where = f"p IN ({sql_number_list(types)}) AND t IN ({targets})"
    sql = f"SELECT p, count(DISTINCT n) FROM reference WHERE {where} GROUP BY p"
    counts = {types[p]: number for p, number in connection.execute(sql).fetchall()}
    if patient_resources(connection, patient):
        counts["Patient"] = 1
    return dict(sorted(counts.items()))


def list_codes(
    connection: Connection, resource_type: str, patient: str | None
) -> list[CodeCount]:
    """Return the codes of a type, most frequent first, without identifiers and telephones."""
    if patient is not None and (
        resource_type == "Patient" or not has_owner(resource_type)
    ):
        sql = _sql_of_few_resources(connection, resource_type, patient)
    else:
        # Count the rows `x` of each term.
        counted, scope = "count(DISTINCT x.n)", ""
        if patient is not None:
            patients = patient_targets(connection, [patient])
            scope = f"AND x.patient IN ({sql_number_list(patients)})"
            shared = resources_shared_by(connection, patients)
            if shared:
                own = scope.removeprefix("AND ")
                scope = f"AND ({own} OR x.n IN ({sql_number_list(shared)}))"
            counted = "count(*)"
        times = f"(SELECT {counted} FROM token x WHERE x.p = v.p AND x.t = v.t {scope})"
        columns = _COLUMNS.replace("times", f"{times} AS times")
        sql = (
            f"SELECT {columns} FROM element e JOIN vocabulary v ON v.p = e.p"
            f" JOIN term k ON k.t = v.t WHERE e.type = ? AND times > 0 {_ORDER}"
        )
    codes = []
    for path, system, code, display, count in connection.execute(sql, (resource_type,)):
        if is_concept_element(resource_type, path):
            codes.append(
                CodeCount(
                    type=resource_type,
                    element=path,
                    system=system,
                    code=code,
                    display=display,
                    count=count,
                )
            )
    return codes


def _sql_of_few_resources(
    connection: Connection, resource_type: str, patient: str
) -> str:
    """Return the SQL that begins with resources: far fewer than the terms of a large record."""
    if resource_type == "Patient":
        numbers: Iterable[int] = patient_resources(connection, patient)
    else:
        numbers = resources_reached(connection, patient, resource_type)
    return (
        f"SELECT {_COLUMNS} FROM (SELECT p, t, count(DISTINCT n) AS times FROM token"
        f" WHERE n IN ({sql_number_list(numbers)}) GROUP BY p, t) c"
        " JOIN element e ON e.p = c.p JOIN vocabulary v ON v.p = c.p AND v.t = c.t"
        f" JOIN term k ON k.t = c.t WHERE e.type = ? {_ORDER}"
    )


def units_of_codes(
    connection: Connection,
    schemas: Sequence[str],
    codes: Iterable[tuple[str, str]],
) -> set[str]:
    """Return the units of the Observations that have one of these codes (system, code)."""
    terms: list[int] = []
    for system, code in codes:
        sql = "SELECT t FROM term WHERE code = ? AND ifnull(system, '') = ?"
        terms += first_column(connection, sql, (code, system))
    code_element = _element(connection, "token", "code")
    value_element = _element(connection, "quantity", "valueQuantity")
    units: set[int] = set()
    for schema in schemas:
        sql = (
            "SELECT DISTINCT q.t FROM here.quantity q JOIN"
            f" (SELECT n FROM here.token WHERE p IN ({code_element})"
            f" AND t IN ({sql_number_list(terms)}) LIMIT {_MAX_RESULTS}) k ON k.n = q.n"
            f" WHERE q.p IN ({value_element})"
        )
        units.update(first_column(connection, with_schema(sql, schema)))
    names = f"SELECT code, display FROM term WHERE t IN ({sql_number_list(units)})"
    return {name for row in connection.execute(names) for name in row if name}


def _element(connection: Connection, kind: str, path: str) -> str:
    """Return the number of an element of Observation, as SQL."""
    sql = "SELECT p FROM element WHERE type = 'Observation' AND kind = ? AND path = ?"
    return sql_number_list(first_column(connection, sql, (kind, path)))
