"""The units in which a record has the results of a code."""

from collections.abc import Iterable, Sequence
from sqlite3 import Connection

from archqa.fhir.index.reference_graph import sql_number_list
from archqa.fhir.search.compiled_filter import with_schema

_MAX_RESULTS = 20_000
"""Results of a code that are looked at: those of a frequent code have the same few units."""


def units_of_codes(
    connection: Connection, schemas: Sequence[str], codes: Iterable[tuple[str, str]]
) -> set[str]:
    """Return the units of the Observations that have one of these codes (system, code)."""
    coded = sql_number_list(_terms(connection, codes))
    units: set[int] = set()
    for schema in schemas:
        sql = (
            "SELECT DISTINCT q.t FROM here.quantity q JOIN"
            f" (SELECT n FROM here.token WHERE p IN ({_element(connection, 'token', 'code')})"
            f" AND t IN ({coded}) LIMIT {_MAX_RESULTS}) k ON k.n = q.n"
            f" WHERE q.p IN ({_element(connection, 'quantity', 'valueQuantity')})"
        )
        units.update(t for (t,) in connection.execute(with_schema(sql, schema)))
    names = f"SELECT code, display FROM term WHERE t IN ({sql_number_list(units)})"
    return {name for row in connection.execute(names) for name in row if name}


def _terms(connection: Connection, codes: Iterable[tuple[str, str]]) -> list[int]:
    terms = []
    for system, code in codes:
        sql = "SELECT t FROM term WHERE code = ? AND ifnull(system, '') = ?"
        terms += [t for (t,) in connection.execute(sql, (code, system))]
    return terms


def _element(connection: Connection, kind: str, path: str) -> str:
    sql = "SELECT p FROM element WHERE type = 'Observation' AND kind = ? AND path = ?"
    return sql_number_list(p for (p,) in connection.execute(sql, (kind, path)))
