"""Rows within the visit and the window of time that a query requests."""

from dataclasses import replace

from archqa.query.execution.context import ExecutionContext, Scope
from archqa.query.execution.row_sources import plural
from archqa.query.execution.rows import Row
from archqa.query.execution.time_windows import Window
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
    return _in_window(context, rows, what, scope.window, by_end=by_end)


def _in_window(
    context: ExecutionContext, rows: list[Row], what: str, window: Window, *, by_end: bool
) -> list[Row]:
    undated = 0
    rows_in_window = []
    for row in rows:
        time = row.local_time
        if by_end:
            time = row.local_end
        if time is None:
            undated += 1
        elif window.contains(time):
            rows_in_window.append(row)
    if undated:
        context.warn(f"{undated} of {len(rows)} {plural(what)} have no time and are left out.")
    return rows_in_window


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
    rows_with_start = [row for row in rows if row.time is not None]
    without_start = len(rows) - len(rows_with_start)
    if without_start == 0:
        return rows
    fact = f"{without_start} of {len(rows)} prescriptions have no start"
    policy = context.conventions.missing_start_policy
    if policy == "authored_unless_ordered" and when.position:
        context.warn(f"{fact} and are left out of the order.")
        return rows_with_start
    if when.spans or when.position:
        context.warn(f"{fact}: the time of writing stands in.")
    return list(map(_with_start, rows))


def _with_start(row: Row) -> Row:
    if row.time is not None:
        return row
    return replace(row, time=row.authored_on)
