"""For what, where and with whom a visit was: looked up where the query did not ask for it."""

from collections.abc import Sequence
from dataclasses import replace

from archqa.asking.record_statements import MAX_LINES, Execute
from archqa.query.execution.rows import Row
from archqa.query.model import Query, ReturnedField

_MAX_REASONS = 3
_VISITS = frozenset({"encounter", "hospital_visit"})


def with_visit_details(query: Query, rows: Sequence[Row], execute: Execute | None) -> Sequence[Row]:
    """Return visits with their reasons and places, a single one also with who was there.

    Other rows, and visits that are too many to be shown, are returned as they are.
    """
    if execute is None or query.what not in _VISITS or len(rows) > MAX_LINES:
        return rows
    fields: list[ReturnedField] = ["reason", "place"]
    if len(rows) == 1:
        fields.append("practitioner")
    for field in fields:
        if field != query.returns:
            rows = _with_field(query, rows, field, execute)
    return rows


def _with_field(
    query: Query, rows: Sequence[Row], field: ReturnedField, execute: Execute
) -> list[Row]:
    changes = {"returns": field, "summary": "each", "per": None, "unit": None}
    further = query.model_copy(update=changes)
    by_ref = {row.refs[0]: row for row in execute(further).chosen}
    return [_merged(row, by_ref.get(row.refs[0])) for row in rows]


def _merged(row: Row, detailed: Row | None) -> Row:
    """The row with the detail; not with the many diagnoses of a stay, which are no reason for it."""
    if detailed is None or len(detailed.reason_refs) > _MAX_REASONS:
        return row
    facts = {**detailed.facts, **row.facts}
    return replace(row, facts=facts, reason_refs=row.reason_refs or detailed.reason_refs)
