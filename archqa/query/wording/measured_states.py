"""What values say of a state that nobody recorded as a diagnosis: fever, hypoxemia, hypotension."""

import operator
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import chain

from archqa.query.execution.rows import Row, parse_datetime
from archqa.query.model import Query
from archqa.query.wording.details import Execute, Part, Says, Statement
from archqa.query.wording.rows import row_text, unit_text
from archqa.query.wording.support import Support
from archqa.query.wording.words import counted, full_years, number_text
from archqa.terminology.concepts import (
    MeasuredState,
    concept_named,
    measured_state,
    related,
)
from archqa.terminology.units import convert

_ADULT = 18
_AT_ANY_AGE = frozenset({"body temperature", "oxygen saturation", "glucose"})
"""What has the same limits in children."""

_NEEDS_UNIT = frozenset({"body temperature", "glucose"})
"""What is measured in units so different that a number alone says nothing."""

_DIAGNOSED = frozenset({"hypertension"})
"""States of which single values are no diagnosis: they are named without a yes."""

_SHOWN = 5

_COMPARISONS: dict[str, tuple[Callable[[float, float], bool], str, str]] = {
    "greater": (operator.gt, ">", "above {}"),
    "at_least": (operator.ge, ">", "at or above {}"),
    "less": (operator.lt, "<", "below {}"),
    "at_most": (operator.le, "<", "at or below {}"),
}
"""How each comparison is made, the bounds for which it can hold, and how it reads."""


def part_by_values(query: Query, support: Support, execute: Execute) -> Part | None:
    """Return what values say of the state that a query asks for; None where it has none.

    A query about results asks for a state by `high` or `low`; there the record's own marks and
    reference ranges go first.
    """
    state = _state(query)
    if state is None or query.summary not in {"exists", "each", "count"}:
        return None
    if query.flag:
        plain = query.model_copy(update={"flag": None, "summary": "each"})
        if any(row.fact("flag") for row in execute(plain).rows):
            return None
    measured = Query(
        what="observation",
        concepts=(state.measurement,),
        when=query.when.model_copy(update={"position": None}),
        now=query.now,
        returns="value",
    )
    rows = [row for row in execute(measured).rows if _number(row, state) is not None]
    if not rows:
        return None
    if query.state == "current":
        rows = rows[-1:]
    return _part(query, state, measured, rows, support, _birth(query, execute))


def _state(query: Query) -> MeasuredState | None:
    """The state that a query is about, if it is about one alone."""
    if len(query.concepts) != 1 or query.names or query.value:
        return None
    if query.what == "diagnosis" and query.state != "ended":
        return measured_state(query.concepts[0])
    if query.flag in {"high", "low"}:
        states = related(f"state of {query.flag}")
        return measured_state(next(iter(states.get(query.concepts[0], ())), ""))
    return None


def _part(
    query: Query,
    state: MeasuredState,
    measured: Query,
    rows: Sequence[Row],
    support: Support,
    birth: datetime | None,
) -> Part | None:
    reached = [row for row in rows if _shows(row, state)]
    if not reached:
        return _part_of_none(query, state, measured, rows, support, birth)
    if query.when.position == "first":
        reached = reached[:1]
    elif query.when.position == "last":
        reached = reached[-1:]
    threshold = _threshold(state)
    are_adult = all(_is_adult(row, state, birth) for row in reached)
    note = "" if are_adult else ", the limit of adults"
    statements = []
    for row in reversed(reached):
        text = f"{row_text(measured, row, support)}, {threshold}{note}"
        statements.append(Statement(text, (row,)))
    verdict = ""
    says: Says | None = None
    if query.what == "diagnosis" and state.name in _DIAGNOSED:
        verdict = f"No diagnosis of {state.name} is recorded, but "
    elif query.summary == "count":
        results = counted(len(rows), "result", "results")
        verdict = f"{len(reached)} of {results} {threshold}: "
    elif query.summary == "exists" and are_adult:
        verdict, says = _verdict(query, "Yes"), "yes"
    return Part(tuple(statements), verdict=verdict, says=says, limit=_SHOWN)


def _part_of_none(
    query: Query,
    state: MeasuredState,
    measured: Query,
    rows: Sequence[Row],
    support: Support,
    birth: datetime | None,
) -> Part | None:
    """The value that comes nearest to the limit that none reaches."""
    if state.name in _DIAGNOSED and query.what == "diagnosis":
        return None  # Normal values do not deny it: it may be treated.
    is_upper = state.comparison in {"greater", "at_least"}
    in_order = sorted(rows, key=lambda row: _number(row, state) or 0)
    nearest = in_order[-1] if is_upper else in_order[0]
    place = "the only result"
    if len(rows) > 1:
        place = f"the {'highest' if is_upper else 'lowest'} of {len(rows)} results"
    elif query.state == "current":
        place = "the newest result"
    text = (
        f"{row_text(measured, nearest, support)}, {place}, is not {_threshold(state)}"
    )
    is_certain = not any(row.comparator for row in rows)
    part = Part((Statement(text, (nearest,)),))
    if is_certain and _is_adult(nearest, state, birth):
        return part.as_no(_verdict(query, "No"))
    return part


def _verdict(query: Query, word: str) -> str:
    return f"{word}, when last measured: " if query.state == "current" else f"{word}: "


def _threshold(state: MeasuredState) -> str:
    limit = f"{number_text(state.number)} {unit_text(state.unit)}"
    return _COMPARISONS[state.comparison][2].format(limit)


def _number(row: Row, state: MeasuredState) -> float | None:
    """The value of a result in the unit of the limit; None where that is not known."""
    if row.value is None:
        return None
    if not row.unit:
        return None if state.measurement in _NEEDS_UNIT else row.value
    concept = concept_named("measurement", state.measurement)
    return convert(row.value, row.unit, state.unit, concept)


def _shows(row: Row, state: MeasuredState) -> bool:
    """Whether a value is beyond the limit for certain."""
    number = _number(row, state)
    passes, bounds, _ = _COMPARISONS[state.comparison]
    if row.comparator and not row.comparator.startswith(bounds):
        return False
    return number is not None and passes(number, state.number)


def _birth(query: Query, execute: Execute) -> datetime | None:
    patient = Query(what="patient", returns="birth_date", now=query.now)
    dates = chain.from_iterable(row.fact("birth_date") for row in execute(patient).rows)
    return parse_datetime(next(dates, None))


def _is_adult(row: Row, state: MeasuredState, birth: datetime | None) -> bool:
    """Whether the limit applies at the age at which the value was measured."""
    if state.measurement in _AT_ANY_AGE or birth is None or row.time is None:
        return True
    return full_years(birth.date(), row.time.date()) >= _ADULT
