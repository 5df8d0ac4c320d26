"""From rows to values: what of each row is asked for, and what is made of it."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from archqa.fhir.values.tokens import normalise_text
from archqa.query.execution.context import ExecutionContext, uses_end_time
from archqa.query.execution.elements import text_at
from archqa.query.execution.findings import Answer, AnswerKind, Scalar
from archqa.query.execution.problems import CannotExecute
from archqa.query.execution.rows import Row, parse_datetime, without_timezone
from archqa.query.model import Query

_UNITS = {
    "minute": 1 / 1440,
    "hour": 1 / 24,
    "day": 1.0,
    "week": 7.0,
    "month": 365.25 / 12,
    "year": 365.25,
}
"""In days."""

_PREFIX = {"day": 10, "month": 7, "year": 4}
_TIMES = frozenset({"time", "end_time", "birth_date", "death_time"})
_NUMBERS = frozenset({"value", "elapsed", "length_of_stay", "age"})
_REPEATED = frozenset({"value", "dose", "elapsed", "length_of_stay"})
_FIGURES: dict[str, Callable[[Sequence[float]], float]] = {
    "minimum": min,
    "maximum": max,
    "sum": sum,
    "average": lambda values: sum(values) / len(values),
}


def aggregate_rows(inquiry: ExecutionContext, rows: Sequence[Row]) -> Answer:
    """The answer that rows give to a query of one side."""
    query = inquiry.query
    if query.summary == "exists":
        return Answer(kind="yes_no", values=(bool(rows),))
    if query.per is not None:
        return _per_period(inquiry, rows)
    if query.summary == "count":
        return Answer(kind="count", values=(len(rows),))
    values = [value for row in rows for value in _values(inquiry, row)]
    if query.summary == "count_distinct":
        return Answer(kind="count", values=(len(_once(values, inquiry)),))
    if query.summary == "each":
        return _each(inquiry, rows, values)
    return Answer(kind=_kind(query), values=(_figure(inquiry, rows),), unit=_unit(inquiry, rows))


def _per_period(inquiry: ExecutionContext, rows: Sequence[Row]) -> Answer:
    """One figure for each day, month or year in which there is a value, oldest first."""
    length = _PREFIX[inquiry.query.per or "day"]
    times = (
        (without_timezone(row.end) if uses_end_time(inquiry.query) else row.wall, row)
        for row in rows
    )
    timed = sorted(
        ((time.isoformat()[:length], row) for time, row in times if time), key=lambda each: each[0]
    )
    groups = [
        (period, [row for _, row in group])
        for period, group in itertools.groupby(timed, lambda each: each[0])
    ]
    found = [(period, _counted(inquiry, group)) for period, group in groups]
    found = [(period, value) for period, value in found if value is not None]
    return Answer(
        kind="count" if inquiry.query.summary == "count" else "number",
        values=tuple(value for _, value in found),
        unit=_unit(inquiry, rows),
        periods=tuple(period for period, _ in found),
    )


def _counted(inquiry: ExecutionContext, rows: Sequence[Row]) -> Scalar:
    return len(rows) if inquiry.query.summary == "count" else _figure(inquiry, rows)


def _each(inquiry: ExecutionContext, rows: Sequence[Row], values: list[Scalar]) -> Answer:
    """Each value: words and times once (a drug's name is no news twice), results and doses as often as they occur."""
    kind = _kind(inquiry.query)
    if kind == "number" and all(isinstance(value, str) for value in values) and values:
        kind = "text"
    found = values if inquiry.query.returns in _REPEATED else _once(values, inquiry)
    return Answer(kind=kind, values=tuple(found), unit=_unit(inquiry, rows))


def comparison_value(inquiry: ExecutionContext, rows: Sequence[Row]) -> float | None:
    """One number of one side of a comparison: the summary, or the value of the first row; None if there is none."""
    if inquiry.query.summary == "count":
        return float(len(rows))
    if inquiry.query.summary != "each":
        found = _figure(inquiry, rows)
        return float(found) if isinstance(found, int | float) else None
    if len({row.value for row in rows}) > 1:
        inquiry.warn("Several values share the time that is asked for: the first of them counts.")
    first = [value for row in rows[:1] for value in _values(inquiry, row)]
    return float(first[0]) if first and isinstance(first[0], int | float) else None


def _figure(inquiry: ExecutionContext, rows: Sequence[Row]) -> Scalar:
    query = inquiry.query
    if query.returns in _TIMES:
        times = [str(value) for row in rows for value in _values(inquiry, row)]
        return _FIRST_LAST[query.summary](times) if times else None
    numbers = [value for row in rows for value in _numbers(inquiry, row)]
    return _FIGURES[query.summary](numbers) if numbers else None


_FIRST_LAST: dict[str, Callable[[Sequence[str]], str]] = {"minimum": min, "maximum": max}


def _numbers(inquiry: ExecutionContext, row: Row) -> list[float]:
    if inquiry.query.returns == "dose":
        return [row.value] if row.value is not None else []
    return [value for value in _values(inquiry, row) if isinstance(value, int | float)]


def _values(inquiry: ExecutionContext, row: Row) -> list[Scalar]:
    """What of a row is asked for: mostly one value, none if the row does not say."""
    returns = inquiry.query.returns
    if returns == "value":
        return [_value(inquiry, row)]
    if returns in {"time", "end_time"}:
        found = row.time if returns == "time" else row.end
        return [_text(found)] if found else []
    if returns in {"elapsed", "length_of_stay", "age"}:
        number = _LENGTHS[returns](inquiry, row)
        return [] if number is None else [number]
    if returns == "name":
        return [row.name] if row.name else []
    if returns == "visit":
        return [f"Encounter/{row.visit}"] if row.visit else []
    if returns == "dose":
        return [row.text] if row.text else []
    found_facts = row.facts.get(returns, ())
    return list(
        found_facts
        if returns in {"organism", "care_unit", "ethnicity", "language"}
        else found_facts[:1]
    )


def _value(inquiry: ExecutionContext, row: Row) -> Scalar:
    if row.value is not None:
        return row.value
    told = row.facts.get("result")
    if told and not inquiry.ways.include_text_values:
        return told[0]
    return (
        (row.text or None)
        if inquiry.ways.include_text_values or inquiry.query.what not in _MEASURED
        else None
    )


_MEASURED = frozenset({"lab", "vital", "output"})


def _elapsed(inquiry: ExecutionContext, row: Row) -> float | None:
    """From the row's time to the clock, both on the wall clock."""
    if inquiry.now is None:
        raise CannotExecute(
            "The question asks how much time has passed, but not until when.\nGive the clock (now)."
        )
    return None if row.wall is None else _in_unit(inquiry.query, inquiry.now - row.wall)


def _length(inquiry: ExecutionContext, row: Row) -> float | None:
    """From the start to the end, by true time or on the wall clock; None for a stay that has not ended."""
    if row.time is None or row.end is None:
        return None
    if inquiry.ways.times == "instants" and row.time.tzinfo and row.end.tzinfo:
        return _in_unit(inquiry.query, row.end - row.time)
    return _in_unit(inquiry.query, row.end.replace(tzinfo=None) - row.time.replace(tzinfo=None))


def _age(inquiry: ExecutionContext, row: Row) -> float | None:
    """Whole years: at the row's time; of the patient at the visit named, else at the clock; at most at death."""
    born, died = (
        without_timezone(parse_datetime(text_at(inquiry.chart.patient_resource, each)))
        for each in ("birthDate", "deceasedDateTime")
    )
    at = row.wall if inquiry.query.what != "patient" else _asked_about(inquiry)
    if at is None and died is None and inquiry.query.what == "patient":
        raise CannotExecute(
            "The question asks for an age, but not at what time.\nGive the clock (now)."
        )
    if at is None or (died is not None and died < at):
        at = died
    if born is None or at is None:
        return None
    return at.year - born.year - ((at.month, at.day) < (born.month, born.day))


def _asked_about(inquiry: ExecutionContext) -> datetime | None:
    """When the visit began that is named, else the clock."""
    visit = inquiry.scope(inquiry.query.when).visit
    return without_timezone(parse_datetime(text_at(visit, "period.start"))) or inquiry.now


_LENGTHS: dict[str, Callable[[ExecutionContext, Row], float | None]] = {
    "elapsed": _elapsed,
    "length_of_stay": _length,
    "age": _age,
}


def _in_unit(query: Query, length: timedelta) -> float:
    return length / timedelta(days=1) / _UNITS[query.unit or "day"]


def _text(time: datetime) -> str:
    return f"{time.replace(tzinfo=None):%Y-%m-%d %H:%M:%S}"


def _kind(query: Query) -> AnswerKind:
    if query.returns in _TIMES:
        return "time"
    if query.returns in _NUMBERS or (query.returns == "dose" and query.summary != "each"):
        return "number"
    return "text"


def _unit(inquiry: ExecutionContext, rows: Iterable[Row]) -> str:
    """The unit that all rows share. Where they differ a sum means little: that is said."""
    query = inquiry.query
    if query.returns in {"elapsed", "length_of_stay"}:
        return f"{query.unit or 'day'}s"
    if query.returns == "age":
        return "years"
    if query.returns not in {"value", "dose"} or query.summary in {
        "count",
        "count_distinct",
        "exists",
    }:
        return ""
    units = {row.unit for row in rows if row.value is not None}
    if len(units) > 1:
        inquiry.warn(
            f"The values have different units ({', '.join(sorted(unit or 'none' for unit in units))})."
        )
    return units.pop() if len(units) == 1 else ""


def _once(values: Iterable[Scalar], inquiry: ExecutionContext) -> list[Scalar]:
    """Different values, in order. By the conventions, words that differ in case or white space only are the same."""
    if inquiry.ways.distinct_name_matching == "as_written":
        return list(dict.fromkeys(values))
    return list(
        {
            normalise_text(value) if isinstance(value, str) else value: value
            for value in reversed(list(values))
        }.values()
    )[::-1]
