"""Selection of the requested rows: names, visit, time, the other limits, the position in time."""

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from archqa.query.execution.coded import patient_rows
from archqa.query.execution.context import ExecutionContext, position_index, uses_end_time
from archqa.query.execution.names import NameMatcher
from archqa.query.execution.row_sources import fetch_rows, plural
from archqa.query.execution.rows import Row
from archqa.query.execution.scope_filter import filter_by_scope
from archqa.query.model import Companion, Query
from archqa.query.scope import When

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "greater": operator.gt,
    "less": operator.lt,
    "at_least": operator.ge,
    "at_most": operator.le,
    "equal": operator.eq,
}
_SHARED_TIME_FIELDS = {"same_time": 6, "same_day": 3, "same_month": 2}
"""How many of year, month, day, hour, minute and second two rows must share."""


class RowSelection(NamedTuple):
    """All rows that pass the limits, oldest first, and the requested ones of them."""

    rows: list[Row]
    chosen: list[Row]


def select_rows(context: ExecutionContext, names: tuple[str, ...], when: When) -> RowSelection:
    """The rows of one side of a query."""
    query = context.query
    if query.what == "patient":
        return _select_patient(context, when)
    by_end = uses_end_time(query)
    scope = context.resolve_scope(when)
    rows = fetch_rows(context, query.what, names, scope)
    context.note_search(f"{plural(query.what)}{_named(names)}: {len(rows)} in the record")
    rows = filter_by_scope(context, rows, query.what, when, scope, by_end=by_end)
    rows = _resolve_censored_values(context, rows)
    rows = _filter_by_attributes(context, rows)
    if query.companion is not None:
        rows = _filter_by_companion(context, rows, query.companion)
    rows = _sorted_by_time(context, rows, by_end=by_end)
    context.note_search(f"{len(rows)} of them pass every limit")
    extreme_rows = _filter_by_extreme(query, rows)
    chosen = _at_position(context, extreme_rows, when, by_end=by_end)
    return RowSelection(rows, chosen)


def _select_patient(context: ExecutionContext, when: When) -> RowSelection:
    """The patient, whatever the time: a Patient resource describes the person as of now."""
    has_time = when.spans or when.visit or when.position
    if has_time and context.query.returns != "age":
        context.warn(
            "The record says this of the patient as of now, not of the time that is asked for."
        )
    rows = patient_rows(context)
    context.note_search(f"patients: {len(rows)} in the record")
    return RowSelection(rows, rows)


def _resolve_censored_values(context: ExecutionContext, rows: list[Row]) -> list[Row]:
    """Values such as `< 0.01`, by the conventions."""
    censored = [row for row in rows if row.comparator]
    if not censored:
        return rows
    fact = f"{len(censored)} of {len(rows)} values are only bounds (such as < 5)"
    if context.conventions.censored_values == "as_bound":
        context.warn(f"{fact}: the bound stands in.")
        return rows
    context.warn(f"{fact} and are no numbers here.")
    return list(map(_without_number, rows))


def _without_number(row: Row) -> Row:
    if not row.comparator:
        return row
    return replace(row, value=None, text=f"{row.comparator} {row.value}")


def _filter_by_attributes(context: ExecutionContext, rows: list[Row]) -> list[Row]:
    return [row for row in rows if _passes_limits(context, row)]


def _passes_limits(context: ExecutionContext, row: Row) -> bool:
    """Whether a row passes the limits that depend on nothing else."""
    query = context.query
    requested_facts = {
        "specimen": query.specimens,
        "organism": query.organisms,
        "route": query.routes,
        "admission_source": query.admission_sources,
    }
    for fact, names in requested_facts.items():
        if names and not _matches_any(context, names, row.facts.get(fact, ())):
            return False
    results = (*row.facts.get("result", ()), row.text)
    if query.results and not _matches_any(context, query.results, results):
        return False
    has_organism = bool(row.facts.get("organism"))
    if query.grew is not None and has_organism != query.grew:
        return False
    return _passes_value_test(query, row)


def _matches_any(
    context: ExecutionContext, names: tuple[str, ...], row_names: tuple[str, ...]
) -> bool:
    matches = NameMatcher(names, row_names, context.conventions)
    return matches(*row_names)


def _passes_value_test(query: Query, row: Row) -> bool:
    if query.value is None:
        return True
    if row.value is None:
        return False
    passes = _COMPARISONS[query.value.comparison]
    return passes(row.value, query.value.number)


def _filter_by_companion(
    context: ExecutionContext, rows: list[Row], companion: Companion
) -> list[Row]:
    """Rows near a companion row, which is added as context, not as evidence."""
    companion_rows = _companion_rows(context, companion)
    matching_rows = []
    for row in rows:
        refs: dict[str, None] = {}
        for companion_row in companion_rows:
            if _is_near(row, companion_row, companion):
                refs[companion_row.refs[0]] = None
        if refs:
            context_refs = (*row.context_refs, *refs)
            matching_rows.append(replace(row, context_refs=context_refs))
    return matching_rows


def _companion_rows(context: ExecutionContext, companion: Companion) -> list[Row]:
    scope = context.resolve_scope(companion.when)
    rows = fetch_rows(context, companion.what, companion.names, scope)
    rows = filter_by_scope(context, rows, companion.what, companion.when, scope)
    if companion.routes:
        matches = NameMatcher(companion.routes, (), context.conventions)
        rows = [row for row in rows if matches(*row.facts.get("route", ()))]
    rows = _sorted_by_time(context, rows)
    return _at_position(context, rows, companion.when)


def _is_near(row: Row, companion_row: Row, companion: Companion) -> bool:
    if row.refs == companion_row.refs:
        return False
    if companion.within == "same_visit" and not _share_visit(row, companion_row):
        return False
    row_time = row.local_time
    companion_time = companion_row.local_time
    fields = _SHARED_TIME_FIELDS.get(companion.within, 0)
    if fields == 0 and companion.order == "any":
        return True
    if row_time is None or companion_time is None:
        return False
    if row_time.timetuple()[:fields] != companion_time.timetuple()[:fields]:
        return False
    if companion.order == "after":
        return row_time > companion_time
    if companion.order == "before":
        return row_time < companion_time
    return True


def _share_visit(row: Row, companion_row: Row) -> bool:
    visit_id = row.hospital_visit_id
    return bool(visit_id) and visit_id == companion_row.hospital_visit_id


def _filter_by_extreme(query: Query, rows: list[Row]) -> list[Row]:
    """Only the rows with the smallest or largest value, if requested."""
    if query.extreme is None:
        return rows
    values = [row.value for row in rows if row.value is not None]
    if not values:
        return []
    extreme = max(values)
    if query.extreme == "minimum":
        extreme = min(values)
    return [row for row in rows if row.value == extreme]


def _at_position(
    context: ExecutionContext, rows: Sequence[Row], when: When, *, by_end: bool = False
) -> list[Row]:
    """The rows of the n-th distinct time, among those with a time; all rows without a position."""
    if when.position is None:
        return list(rows)

    def time_of(row: Row) -> datetime | None:
        return _sort_time(context, row, by_end=by_end)

    timed_rows = [row for row in rows if time_of(row) is not None]
    groups = []
    for _, rows_of_one_time in itertools.groupby(timed_rows, time_of):
        groups.append(list(rows_of_one_time))
    index = position_index(when.position)
    if -len(groups) <= index < len(groups):
        return groups[index]
    return []


def _sorted_by_time(
    context: ExecutionContext, rows: Iterable[Row], *, by_end: bool = False
) -> list[Row]:
    """Oldest first; rows without a time last."""

    def sort_key(row: Row) -> tuple[bool, datetime]:
        time = _sort_time(context, row, by_end=by_end)
        return time is None, time or datetime.max

    return sorted(rows, key=sort_key)


def _sort_time(context: ExecutionContext, row: Row, *, by_end: bool) -> datetime | None:
    time = row.time
    if by_end:
        time = row.end
    if time is None:
        return None
    offset = time.utcoffset()
    local_time = time.replace(tzinfo=None)
    if offset is None or context.conventions.time_comparison == "wall_clock":
        return local_time
    return local_time - offset


def _named(names: Iterable[str]) -> str:
    quoted_names = " or ".join(map(repr, names))
    if not quoted_names:
        return ""
    return f" named {quoted_names}"
