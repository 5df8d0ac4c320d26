"""Rows within the visit and the window of time that a query requests."""

from dataclasses import replace

from archqa.query.execution.context import ExecutionContext, Scope
from archqa.query.execution.row_sources import plural
from archqa.query.execution.rows import Row
from archqa.query.scope import When

_ENCOUNTER_KINDS = frozenset({"lab", "microbiology_test", "organism", "susceptibility"})
"""Kinds that may lack an encounter, which conventions can require."""


def filter_by_scope(
    context: ExecutionContext,
    rows: list[Row],
    what: str,
    when: When,
    scope: Scope,
    *,
    by_end: bool = False,
) -> list[Row]:
    """Rows within the visit and the window; `by_end` compares their end with the window."""
    if context.conventions.requires_encounter and what in _ENCOUNTER_KINDS:
        rows = _with_encounter(context, rows, what)
    if what == "medication":
        rows = _resolve_missing_starts(context, rows, when)
    rows = [row for row in rows if scope.contains(row)]
    if not when.spans:
        return rows
    times = [row.local_end if by_end else row.local_time for row in rows]
    undated = times.count(None)
    if undated:
        context.warn(f"{undated} of {len(rows)} {plural(what)} have no time and are left out.")
    return [row for row, time in zip(rows, times, strict=True) if scope.window.contains(time)]


def _with_encounter(context: ExecutionContext, rows: list[Row], what: str) -> list[Row]:
    rows_with_encounter = [row for row in rows if row.hospital_visit_id]
    omitted = len(rows) - len(rows_with_encounter)
    if omitted:
        percent = 100 * omitted / len(rows)
        context.warn(
            f"{omitted} of {len(rows)} {plural(what)} ({percent:.0f} %) have no encounter "
            "and are left out."
        )
    return rows_with_encounter


def _resolve_missing_starts(context: ExecutionContext, rows: list[Row], when: When) -> list[Row]:
    """Orders without a start, by the conventions."""
    without_start = sum(1 for row in rows if row.time is None)
    if not without_start:
        return rows
    fact = f"{without_start} of {len(rows)} prescriptions have no start"
    policy = context.conventions.missing_start_policy
    if policy == "authored_unless_ordered" and when.position:
        context.warn(f"{fact} and are left out of the order.")
        return [row for row in rows if row.time is not None]
    if when.spans or when.position:
        context.warn(f"{fact}: the time of writing stands in.")
    return [_with_start(row) for row in rows]


def _with_start(row: Row) -> Row:
    return replace(row, time=row.authored_on) if row.time is None else row
