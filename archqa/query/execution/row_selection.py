"""From all rows of one sort to those that are asked for: names, visit, time, the other limits, the n-th in time."""

import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from archqa.query.execution.coded import diagnoses, patient_rows, procedures
from archqa.query.execution.context import ExecutionContext, Scope, position_index, uses_end_time
from archqa.query.execution.measurements import measurements
from archqa.query.execution.medications import medications
from archqa.query.execution.microbiology import microbiology
from archqa.query.execution.names import NameMatcher
from archqa.query.execution.rows import Row
from archqa.query.execution.visits import care_units, hospital_visits, icu_stays
from archqa.query.model import Companion, Query
from archqa.query.scope import When

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "greater": operator.gt,
    "less": operator.lt,
    "at_least": operator.ge,
    "at_most": operator.le,
    "equal": operator.eq,
}
_PLENTY = {
    "lab": "lab results",
    "microbiology_test": "microbiology tests",
    "organism": "organisms",
    "susceptibility": "susceptibility results",
}


class RowSelection(NamedTuple):
    """All rows that pass the limits, oldest first, and those of them that are asked for."""

    rows: list[Row]
    chosen: list[Row]


def select_rows(inquiry: ExecutionContext, names: tuple[str, ...], when: When) -> RowSelection:
    """The rows of one side of a query."""
    query, scope = inquiry.query, inquiry.scope(when)
    if query.what == "patient":
        return _whole(inquiry, when)
    found = _of_sort(inquiry, query.what, names, scope)
    inquiry.searched[f"{_words(query.what)}{_called(names)}: {len(found)} in the record"] = None
    found = _numbers(
        inquiry, _placed(inquiry, found, query.what, when, scope, uses_end_time(query))
    )
    passing = [row for row in found if _passes(query, row, inquiry)]
    if query.companion is not None:
        passing = _beside(inquiry, passing, query.companion)
    ordered = sorted(passing, key=lambda row: _order_key(inquiry, row, uses_end_time(query)))
    inquiry.searched[f"{len(ordered)} of them pass every limit"] = None
    return RowSelection(
        ordered, _nth(inquiry, _extreme(query, ordered), when, uses_end_time(query))
    )


def _whole(inquiry: ExecutionContext, when: When) -> RowSelection:
    """The patient, whatever the time: what FHIR says of a person it says as of now."""
    if (when.spans or when.visit or when.position) and inquiry.query.returns != "age":
        inquiry.warn(
            "The record says this of the patient as of now, not of the time that is asked for."
        )
    rows = patient_rows(inquiry)
    inquiry.searched[f"patients: {len(rows)} in the record"] = None
    return RowSelection(rows, rows)


def _of_sort(
    inquiry: ExecutionContext, what: str, names: tuple[str, ...], scope: Scope
) -> list[Row]:
    """Rows of one sort with one of the names. Nothing is fetched for a visit that there is not."""
    if scope.visit_not_found:
        return []
    if what in {"lab", "vital", "output"}:
        return measurements(inquiry, what, names, scope)
    if what in {"microbiology_test", "organism", "susceptibility"}:
        rows = microbiology(inquiry, what)
    else:
        rows = _SOURCES[what](inquiry)
    test = NameMatcher(names, (name for row in rows for name in row.names), inquiry.ways, what)
    return [row for row in rows if not names or test(*row.names)]


_SOURCES: dict[str, Callable[[ExecutionContext], list[Row]]] = {
    "medication": medications,
    "procedure": procedures,
    "diagnosis": diagnoses,
    "hospital_visit": hospital_visits,
    "icu_stay": icu_stays,
    "care_unit": care_units,
    "patient": patient_rows,
}


def _placed(
    inquiry: ExecutionContext,
    rows: list[Row],
    what: str,
    when: When,
    scope: Scope,
    ends: bool = False,
) -> list[Row]:
    """Rows within the visit and the window, by their end if it is that which is asked for."""
    if inquiry.ways.requires_encounter and what in _PLENTY:
        rows = _in_encounters(inquiry, rows, what)
    if what == "medication":
        rows = _started(inquiry, rows, when)
    rows = [row for row in rows if scope.holds(row)]
    if not when.spans:
        return rows
    undated = sum((row.end if ends else row.time) is None for row in rows)
    if undated:
        inquiry.warn(f"{undated} of {len(rows)} {_words(what)} have no time and are left out.")
    return [row for row in rows if scope.window.holds(_ended(row) if ends else row.wall)]


def _in_encounters(inquiry: ExecutionContext, rows: list[Row], what: str) -> list[Row]:
    kept = [row for row in rows if row.visit]
    if len(kept) < len(rows):
        share = 100 * (len(rows) - len(kept)) / len(rows)
        lost = f"{len(rows) - len(kept)} of {len(rows)} {_words(what)} ({share:.0f} %)"
        inquiry.warn(f"{lost} have no encounter and are left out.")
    return kept


def _started(inquiry: ExecutionContext, rows: list[Row], when: When) -> list[Row]:
    """Orders without a start: as the conventions say."""
    without = [row for row in rows if row.time is None]
    if not without:
        return rows
    if inquiry.ways.missing_start_policy == "authored_unless_ordered" and when.position:
        inquiry.warn(
            f"{len(without)} of {len(rows)} prescriptions have no start and are left out of the order."
        )
        return [row for row in rows if row.time is not None]
    if when.spans or when.position:
        inquiry.warn(
            f"{len(without)} of {len(rows)} prescriptions have no start: the time of writing stands in."
        )
    return [row if row.time is not None else replace(row, time=row.authored_on) for row in rows]


def _numbers(inquiry: ExecutionContext, rows: list[Row]) -> list[Row]:
    """Values such as `< 0.01`: as the conventions say."""
    bounded = sum(bool(row.comparator) for row in rows)
    if not bounded:
        return rows
    if inquiry.ways.censored_values == "as_bound":
        inquiry.warn(
            f"{bounded} of {len(rows)} values are only bounds (such as < 5): the bound stands in."
        )
        return rows
    inquiry.warn(
        f"{bounded} of {len(rows)} values are only bounds (such as < 5) and are no numbers here."
    )
    return [
        replace(row, value=None, text=f"{row.comparator} {row.value}") if row.comparator else row
        for row in rows
    ]


def _passes(query: Query, row: Row, inquiry: ExecutionContext) -> bool:
    """Whether a row passes the limits that look at nothing but itself."""
    wanted = {
        "specimen": query.specimens,
        "organism": query.organisms,
        "route": query.routes,
        "admission_source": query.admission_sources,
    }
    for fact, names in wanted.items():
        if names and not NameMatcher(names, row.facts.get(fact, ()), inquiry.ways)(
            *row.facts.get(fact, ())
        ):
            return False
    told = (*row.facts.get("result", ()), row.text)
    if query.results and not NameMatcher(query.results, told, inquiry.ways)(*told):
        return False
    if query.grew is not None and bool(row.facts.get("organism")) != query.grew:
        return False
    test = query.value
    return test is None or (
        row.value is not None and _COMPARE[test.comparison](row.value, test.number)
    )


def _beside(inquiry: ExecutionContext, rows: list[Row], companion: Companion) -> list[Row]:
    """Rows that stand near one of the companion's, which is told beside them, but is no evidence of its own."""
    scope = inquiry.scope(companion.when)
    others = _of_sort(inquiry, companion.what, companion.names, scope)
    others = _placed(inquiry, others, companion.what, companion.when, scope)
    if companion.routes:
        test = NameMatcher(companion.routes, (), inquiry.ways)
        others = [row for row in others if test(*row.facts.get("route", ()))]
    ordered = sorted(others, key=lambda row: _order_key(inquiry, row, ends=False))
    chosen = _nth(inquiry, ordered, companion.when, ends=False)
    found = []
    for row in rows:
        near = [
            other.refs[0]
            for other in chosen
            if other.refs != row.refs and _near(row, other, companion)
        ]
        if near:
            found.append(replace(row, context_refs=(*row.context_refs, *dict.fromkeys(near))))
    return found


def _near(row: Row, other: Row, companion: Companion) -> bool:
    if companion.within == "same_visit" and (not row.visit or row.visit != other.visit):
        return False
    own, theirs = row.wall, other.wall
    if companion.within != "same_visit" and companion.within != "ever":
        parts = {"same_time": 6, "same_day": 3, "same_month": 2}[companion.within]
        if own is None or theirs is None or own.timetuple()[:parts] != theirs.timetuple()[:parts]:
            return False
    if companion.order == "any":
        return True
    if own is None or theirs is None:
        return False
    return own > theirs if companion.order == "after" else own < theirs


def _extreme(query: Query, rows: Sequence[Row]) -> list[Row]:
    """Only the rows with the smallest or largest value, if that is asked for."""
    if query.extreme is None:
        return list(rows)
    values = [row.value for row in rows if row.value is not None]
    if not values:
        return []
    best = min(values) if query.extreme == "minimum" else max(values)
    return [row for row in rows if row.value == best]


def _nth(inquiry: ExecutionContext, rows: Sequence[Row], when: When, ends: bool) -> list[Row]:
    """The rows of the n-th distinct time, of those that have one; all rows if no position is asked for."""
    if when.position is None:
        return list(rows)
    timed = [row for row in rows if _order_key(inquiry, row, ends)[0] == 0]
    groups = [
        list(group)
        for _, group in itertools.groupby(timed, lambda row: _order_key(inquiry, row, ends))
    ]
    at = position_index(when.position)
    return groups[at] if -len(groups) <= at < len(groups) else []


def _order_key(inquiry: ExecutionContext, row: Row, ends: bool) -> tuple[int, datetime]:
    """Oldest first, and what has no time last."""
    time = row.end if ends else row.time
    if time is None:
        return 1, datetime.max
    if inquiry.ways.times == "instants" and time.tzinfo is not None:
        return 0, (time - (time.utcoffset() or time - time)).replace(tzinfo=None)
    return 0, time.replace(tzinfo=None)


def _ended(row: Row) -> datetime | None:
    return row.end.replace(tzinfo=None) if row.end else None


def _words(what: str) -> str:
    return _PLENTY.get(what) or {"diagnosis": "diagnoses"}.get(what) or f"{what.replace('_', ' ')}s"


def _called(names: Iterable[str]) -> str:
    listed = " or ".join(repr(name) for name in names)
    return f" named {listed}" if listed else ""
