"""Counts of a record's resources by type, and of their codes."""

from sqlite3 import Connection

from archqa.fhir.index.reference_graph import sql_number_list
from archqa.fhir.record import CodeCount
from archqa.fhir.search import compartment
from archqa.fhir.search.shared_resources import owner_elements, resources_shared_by
from archqa.fhir.values.search_parameters import is_concept_element, parameters


def count_resources(connection: Connection, patient: str | None) -> dict[str, int]:
    """Return the resources of each type, in all or of one patient (the patient included)."""
    if patient is None:
        sql = (
            "SELECT k.name, count(*) FROM resource r JOIN type k ON k.k = r.type"
            " GROUP BY k.name ORDER BY k.name"
        )
        return dict(connection.execute(sql))
    types = owner_elements(connection)
    targets = sql_number_list(compartment.patient_target_ids(connection, patient))
    where = f"p IN ({sql_number_list(types)}) AND t IN ({targets})"
    sql = f"SELECT p, count(DISTINCT n) FROM reference WHERE {where} GROUP BY p"
    counts = {types[p]: number for p, number in connection.execute(sql).fetchall()}
    if compartment.patient_resource_ids(connection, patient):
        counts["Patient"] = 1
    return dict(sorted(counts.items()))


_COLUMNS = "e.path, ifnull(k.system, ''), ifnull(k.code, ''), ifnull(k.display, ''), times"
_ORDER = "ORDER BY times DESC, k.display, k.code, k.system, e.path"


def list_codes(connection: Connection, resource_type: str, patient: str | None) -> list[CodeCount]:
    """Return the codes of a type, most frequent first, without identifiers and telephones."""
    numbers = _few_resources(connection, resource_type, patient)
    if numbers is not None:
        sql = _codes_of_resources(numbers)
    else:
        sql = _codes_by_term(*_scope(connection, patient))
    return [
        CodeCount(
            type=resource_type,
            element=path,
            system=system,
            code=code,
            display=display,
            count=number,
        )
        for path, system, code, display, number in connection.execute(sql, (resource_type,))
        if is_concept_element(resource_type, path)
    ]


def _few_resources(connection: Connection, resource_type: str, patient: str | None) -> str | None:
    """Return the resources of a patient as SQL, where they are found by number, else None."""
    if patient is None:
        return None
    if resource_type == "Patient":
        return sql_number_list(compartment.patient_resource_ids(connection, patient))
    if "patient" not in parameters(resource_type):
        return sql_number_list(compartment.reached(connection, patient, resource_type))
    return None


def _codes_of_resources(numbers: str) -> str:
    """Return the SQL that begins with resources: far fewer than the terms of a large record."""
    return (
        f"SELECT {_COLUMNS} FROM (SELECT p, t, count(DISTINCT n) AS times FROM token"
        f" WHERE n IN ({numbers}) GROUP BY p, t) c"
        " JOIN element e ON e.p = c.p JOIN vocabulary v ON v.p = c.p AND v.t = c.t"
        f" JOIN term k ON k.t = c.t WHERE e.type = ? {_ORDER}"
    )


def _codes_by_term(counted: str, scope: str) -> str:
    """Return the SQL that counts the rows of each term."""
    times = f"(SELECT {counted} FROM token x WHERE x.p = v.p AND x.t = v.t {scope})"
    columns = _COLUMNS.replace("times", f"{times} AS times")
    return (
        f"SELECT {columns} FROM element e JOIN vocabulary v ON v.p = e.p"
        f" JOIN term k ON k.t = v.t WHERE e.type = ? AND times > 0 {_ORDER}"
    )


def _scope(connection: Connection, patient: str | None) -> tuple[str, str]:
    """Return, as SQL, what to count in the rows `x` of the token table, and which rows."""
    if patient is None:
        return "count(DISTINCT x.n)", ""
    patients = compartment.patient_target_ids(connection, patient)
    scope = f"x.patient IN ({sql_number_list(patients)})"
    shared = resources_shared_by(connection, patients)
    if shared:
        scope = f"({scope} OR x.n IN ({sql_number_list(shared)}))"
    return "count(*)", f"AND {scope}"
