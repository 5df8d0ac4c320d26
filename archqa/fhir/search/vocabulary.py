"""What a record is made of: how many resources of each type, and which codes occur in them how often."""

import sqlite3

from archqa.fhir.index import reference_graph
from archqa.fhir.record import CodeCount
from archqa.fhir.search import compartment
from archqa.fhir.values.search_parameters import parameters


def count_resources(connection: sqlite3.Connection, patient: str | None) -> dict[str, int]:
    """Resources of each type, in all or of one patient (the patient included)."""
    if patient is None:
        find = "SELECT k.name, count(*) FROM resource r JOIN type k ON k.k = r.type GROUP BY k.name ORDER BY k.name"
        return dict(connection.execute(find))
    elements = compartment.owner_elements(connection)
    targets = ", ".join(map(str, compartment.patient_target_ids(connection, patient)))
    find = "SELECT p, count(DISTINCT n) FROM reference WHERE p IN ({}) AND t IN ({}) GROUP BY p"
    rows = connection.execute(find.format(", ".join(map(str, elements)), targets)).fetchall()
    found = {elements[p]: number for p, number in rows}
    if compartment.patient_resource_ids(connection, patient):
        found["Patient"] = 1
    return dict(sorted(found.items()))


def list_codes(
    connection: sqlite3.Connection, resource_type: str, patient: str | None
) -> list[CodeCount]:
    """The codes of a type, most frequent first. Identifiers and telephone numbers are none."""
    scope, what = "", "count(DISTINCT x.n)"
    if patient is not None and resource_type == "Patient":
        scope = f"AND x.n IN ({reference_graph.sql_number_list(compartment.patient_resource_ids(connection, patient))})"
    elif patient is not None and "patient" not in parameters(resource_type):
        scope = f"AND x.n IN ({reference_graph.sql_number_list(compartment.reached(connection, patient, resource_type))})"
    elif patient is not None:
        targets = ", ".join(map(str, compartment.patient_target_ids(connection, patient)))
        scope, what = f"AND x.patient IN ({targets})", "count(*)"
    times = f"(SELECT {what} FROM token x WHERE x.p = v.p AND x.t = v.t {scope})"
    find = (
        f"SELECT e.path, ifnull(k.system, ''), ifnull(k.code, ''), ifnull(k.display, ''), {times} AS times "
        "FROM element e JOIN vocabulary v ON v.p = e.p JOIN term k ON k.t = v.t "
        "WHERE e.type = ? AND times > 0 ORDER BY times DESC, k.display, k.code, k.system, e.path"
    )
    return [
        CodeCount(
            type=resource_type,
            element=path,
            system=system,
            code=code,
            display=display,
            count=number,
        )
        for path, system, code, display, number in connection.execute(find, (resource_type,))
    ]
