"""Resolve conditional references: `Practitioner?identifier=system|value` instead of an id.

Sources: hl7.org/fhir/R4/http.html#trules, bundle.html#references. Synthea's Bundles name hospitals
and practitioners this way, and may be loaded before these. Until then the target of such a
reference has a condition, `?identifier=…`, instead of an id; every load tries to replace it.
"""

import re
from collections import Counter
from collections.abc import Iterator
from sqlite3 import Connection
from typing import NamedTuple

from archqa.fhir.index import schema
from archqa.fhir.outcome import FhirError
from archqa.fhir.values.references import ReferenceTarget
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES
from archqa.fhir.values.search_parameters import parameters
from archqa.fhir.values.urls import parse_query_string, split_unescaped, unescape

_CONDITIONAL = re.compile(r"(?:https?://.*/)?([A-Za-z]{1,64})(\?.+)", re.DOTALL)

_NONE = "no resource of the record fits"
_SEVERAL = "several resources fit"
_OTHER_CONDITION = "they name no identifier to look for"


class _Placeholder(NamedTuple):
    """A target that has a condition (`?identifier=…`) instead of an id."""

    t: int
    condition: str
    type: str


class _Move(NamedTuple):
    """A reference target that takes the place of another."""

    old: int
    new: int


def conditional_target(reference: str) -> ReferenceTarget | None:
    """Return the target of a conditional reference, with the condition as its id; None of others."""
    match = _CONDITIONAL.fullmatch(reference) if "?" in reference else None
    if match is None or match[1] not in R4_RESOURCE_TYPES:
        return None
    return ReferenceTarget(match[1], match[2])


def resolve_conditional_references(connection: Connection) -> Counter[str]:
    """Resolve those that fit one resource. Return why others stay, each with their number.

    The indexes must be there. No text of the record is in the reasons.
    """
    moves: list[_Move] = []
    unresolved: Counter[str] = Counter()
    has_patients = False
    for placeholder in _placeholders(connection):
        ids = _fitting_ids(connection, placeholder)
        if len(ids) == 1:
            new = _target_number(connection, ReferenceTarget(placeholder.type, ids[0]))
            moves.append(_Move(placeholder.t, new))
            has_patients |= placeholder.type == "Patient"
        elif _is_referred_to(connection, placeholder.t):
            unresolved[_reason(placeholder, ids)] += 1
    if moves:
        _move(connection, moves, has_patients=has_patients)
    return unresolved


def _placeholders(connection: Connection) -> list[_Placeholder]:
    # "@" is the character after "?": the range is that of all ids that begin with "?".
    sql = "SELECT t, id, type FROM target WHERE id >= '?' AND id < '@'"
    return [_Placeholder(*row) for row in connection.execute(sql)]


def _fitting_ids(connection: Connection, placeholder: _Placeholder) -> list[str]:
    """Return the ids of up to two resources that fit the condition."""
    value = _identifier(placeholder.condition)
    parameter = parameters(placeholder.type).get("identifier")
    if not value or parameter is None:
        return []
    parts = [unescape(part) for part in split_unescaped(value, "|")]
    system = parts[0] if len(parts) == 2 else None
    has_system = "" if system is None else "AND m.system = ?"
    marks = ", ".join("?" * len(parameter.elements))
    # CROSS JOIN keeps the order: SQLite would read all identifiers of the type for each condition.
    sql = (
        "SELECT DISTINCT r.id FROM element e CROSS JOIN term m CROSS JOIN token x"
        " CROSS JOIN resource r WHERE x.p = e.p AND x.t = m.t AND r.n = x.n"
        f" AND e.type = ? AND e.kind = 'token' AND e.path IN ({marks})"
        f" AND m.code = ? {has_system} LIMIT 2"
    )
    args = [placeholder.type, *parameter.elements, parts[-1]]
    if system is not None:
        args.append(system)
    return [resource_id for (resource_id,) in connection.execute(sql, args)]


def _identifier(condition: str) -> str:
    """Return the identifier that is the whole condition; "" if it is another one."""
    try:
        params = parse_query_string(condition[1:])
    except FhirError:
        return ""
    is_identifier = len(params) == 1 and params[0][0] == "identifier"
    value = params[0][1] if is_identifier else ""
    return "" if value.endswith("|") or len(split_unescaped(value, ",")) > 1 else value


def _reason(placeholder: _Placeholder, ids: list[str]) -> str:
    if not _identifier(placeholder.condition):
        return f"{placeholder.type}: {_OTHER_CONDITION}"
    return f"{placeholder.type}: {_SEVERAL if ids else _NONE}"


def _is_referred_to(connection: Connection, t: int) -> bool:
    sql = (
        "SELECT 1 FROM element e CROSS JOIN reference x ON x.p = e.p AND x.t = ?"
        " WHERE e.kind = 'reference' AND e.used LIMIT 1"
    )
    return connection.execute(sql, (t,)).fetchone() is not None


def _target_number(connection: Connection, target: ReferenceTarget) -> int:
    key = (target.id, target.type)
    row = connection.execute("SELECT t FROM target WHERE id = ? AND type = ?", key).fetchone()
    if row is not None:
        return int(row[0])
    (largest,) = connection.execute("SELECT max(t) FROM target").fetchone()
    connection.execute("INSERT INTO target VALUES (?, ?, ?)", (largest + 1, *key))
    return int(largest) + 1


def _move(connection: Connection, moves: list[_Move], *, has_patients: bool) -> None:
    """Let the index rows of each old target be those of the new one."""
    connection.execute("CREATE TEMP TABLE moved (old INTEGER PRIMARY KEY, new INTEGER)")
    connection.executemany("INSERT INTO moved VALUES (?, ?)", moves)
    for sql in _statements(has_patients=has_patients):
        connection.execute(sql)
    connection.execute("DROP TABLE moved")


def _statements(*, has_patients: bool) -> Iterator[str]:
    yield _replace_sql("reference", "t")
    if has_patients:
        for table in schema.INDEX_COLUMN_COUNTS:
            yield _replace_sql(table, "patient")
    yield "DELETE FROM target WHERE t IN (SELECT old FROM moved)"


def _replace_sql(table: str, column: str) -> str:
    new = f"(SELECT new FROM moved WHERE old = {column})"
    return (
        f"UPDATE OR REPLACE {table} SET {column} = {new} WHERE {column} IN (SELECT old FROM moved)"
    )
