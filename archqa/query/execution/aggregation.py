"""Aggregation of rows to the values of an answer."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from archqa.core.id_lists import list_ids
from archqa.fhir.values.text import normalise_text
from archqa.query.execution.concept_limit import ConceptMatcher
from archqa.query.execution.context import ExecutionContext, uses_end_time
from archqa.query.execution.findings import Answer, AnswerKind, Scalar
from archqa.query.execution.row_values import row_numbers, row_values
from archqa.query.execution.rows import Row
from archqa.query.execution.series import Series, series_by_part
from archqa.query.model import Query

_PERIOD_LENGTH = {"day": 10, "month": 7, "year": 4}
"""Leading characters of an ISO time: 2133-12-31, 2133-12, 2133."""

_TIMES = frozenset({"time", "end_time", "birth_date", "death_time"})
_NUMBERS = frozenset({"value", "elapsed", "length_of_stay", "age"})
_REPEATABLE = frozenset({"value", "dose", "elapsed", "length_of_stay"})
_WITHOUT_UNIT = frozenset({"count", "count_distinct", "exists"})


def _average(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _change(numbers: Sequence[float]) -> float:
    """The last number minus the first."""
    return numbers[-1] - numbers[0]


_NUMERIC: dict[str, Callable[[Sequence[float]], float]] = {
    "minimum": min,
    "maximum": max,
    "sum": sum,
    "average": _average,
    "change": _change,
}
_TEMPORAL: dict[str, Callable[[Sequence[str]], str]] = {"minimum": min, "maximum": max}


def aggregate_rows(
    context: ExecutionContext, rows: Sequence[Row], matcher: ConceptMatcher
) -> Answer:
    """The answer of the rows to a query that compares nothing.

    `matcher` tells the parts of a measurement: each has a number of its own.
    """
    query = context.query
    if query.summary == "exists":
        return Answer(kind="yes_no", values=(_exists(context, rows),))
    if query.per is not None:
        return _aggregate_by_period(context, series_by_part(rows, matcher))
    if query.summary == "count":
        return Answer(kind="count", values=(_count(rows, matcher),))
    if query.summary == "count_distinct":
        distinct_values = _distinct(context, _all_values(context, rows))
        return Answer(kind="count", values=(len(distinct_values),))
    if query.summary == "each":
        return _list_values(context, rows)
    if not matcher:
        _warn_of_mixed_tests(context, rows)
    series = series_by_part(rows, matcher)
    values = tuple(_aggregate(context, each.rows) for each in series)
    return Answer(
        kind=_answer_kind(query),
        values=values,
        unit=_shared_unit(context, rows),
        names=tuple(each.name for each in series if each.name),
    )


def _warn_of_mixed_tests(context: ExecutionContext, rows: Sequence[Row]) -> None:
    """A number of the results of several tests means little."""
    if context.conventions.name_matching != "words" or context.query.returns != "value":
        return
    names = {
        frozenset((coding.system, coding.code) for coding in row.codings): row.name
        for row in rows
        if row.value is not None
    }
    if len(set(names.values())) > 1:
        listed = list_ids(sorted(set(names.values())))
        context.warn(f"The values are of {len(names)} different tests: {listed}.")


def _exists(context: ExecutionContext, rows: Sequence[Row]) -> bool:
    """Whether there are rows; of a patient's death, whether the patient died."""
    query = context.query
    if query.returns == "alive" and context.conventions.statuses == "obeyed":
        return any(_all_values(context, rows))
    if query.returns == "death_time" and context.conventions.statuses == "obeyed":
        return bool(_all_values(context, rows))
    return bool(rows)


def _count(rows: Sequence[Row], matcher: ConceptMatcher) -> int:
    """The number of rows; a measurement of several parts counts once a time."""
    if not matcher.parts:
        return len(rows)
    return len({row.time or id(row) for row in rows})


def comparison_value(context: ExecutionContext, rows: Sequence[Row]) -> float | None:
    """The number of one side of a comparison; None if it has none.

    It is the aggregate; without an aggregation, the value of the first row.
    """
    if context.query.summary == "count":
        return float(len(rows))
    if context.query.summary != "each":
        return _as_number(_aggregate(context, rows))
    distinct_values = {row.value for row in rows}
    if len(distinct_values) > 1:
        context.warn("Several values share the time that is asked for: the first of them counts.")
    values = _all_values(context, rows[:1])
    if not values:
        return None
    return _as_number(values[0])


def _as_number(value: Scalar) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    return None


def _aggregate_by_period(context: ExecutionContext, all_series: Sequence[Series]) -> Answer:
    """One value for each day, month or year that has one, oldest first; each part by itself."""
    is_count = context.query.summary == "count"
    periods: list[str] = []
    values: list[Scalar] = []
    names: list[str] = []
    for series in all_series:
        for period, period_rows in _group_by_period(context.query, series.rows):
            value: Scalar = len(period_rows)
            if not is_count:
                value = _aggregate(context, period_rows)
            if value is not None:
                periods.append(period)
                values.append(value)
                names.append(series.name)
    kind: AnswerKind = "number"
    if is_count:
        kind = "count"
    return Answer(
        kind=kind,
        values=tuple(values),
        unit=_shared_unit(context, [row for series in all_series for row in series.rows]),
        periods=tuple(periods),
        names=tuple(filter(None, names)),
    )


def _group_by_period(query: Query, rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    length = _PERIOD_LENGTH[query.per or "day"]
    by_end = uses_end_time(query)
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        time = row.local_time
        if by_end:
            time = row.local_end
        if time is not None:
            period = time.isoformat()[:length]
            groups[period].append(row)
    return sorted(groups.items())


def _list_values(context: ExecutionContext, rows: Sequence[Row]) -> Answer:
    """Every value: names and times once, results and doses as often as they occur."""
    values = _all_values(context, rows)
    kind = _answer_kind(context.query)
    if kind == "number" and values and _are_texts(values):
        kind = "text"
    if context.query.returns not in _REPEATABLE:
        values = _distinct(context, values)
    unit = _shared_unit(context, rows)
    return Answer(kind=kind, values=tuple(values), unit=unit)


def _are_texts(values: Iterable[Scalar]) -> bool:
    return all(isinstance(value, str) for value in values)


def _all_values(context: ExecutionContext, rows: Iterable[Row]) -> list[Scalar]:
    values: list[Scalar] = []
    for row in rows:
        values += row_values(context, row)
    return values


def _aggregate(context: ExecutionContext, rows: Sequence[Row]) -> Scalar:
    """The minimum, maximum, average or sum; None without values."""
    query = context.query
    if query.returns in _TIMES:
        times = list(map(str, _all_values(context, rows)))
        if not times:
            return None
        return _TEMPORAL[query.summary](times)
    numbers: list[float] = []
    for row in rows:
        numbers += row_numbers(context, row)
    if query.summary == "change" and len(numbers) < 2:
        context.warn("A change needs two values of different times.")
        return None
    if not numbers:
        return None
    return _NUMERIC[query.summary](numbers)


def _answer_kind(query: Query) -> AnswerKind:
    if query.returns in _TIMES:
        return "time"
    if query.returns in _NUMBERS:
        return "number"
    if query.returns == "alive":
        return "yes_no"
    if query.returns == "dose" and query.summary != "each":
        return "number"
    return "text"


def _shared_unit(context: ExecutionContext, rows: Iterable[Row]) -> str:
    """The unit that all rows share; where they differ, a warning, since a sum then means little."""
    query = context.query
    if query.returns in {"elapsed", "length_of_stay"}:
        return f"{query.unit or 'day'}s"
    if query.returns == "age":
        return "years"
    if query.returns not in {"value", "dose"} or query.summary in _WITHOUT_UNIT:
        return ""
    units = {row.unit for row in rows if row.value is not None}
    if len(units) > 1:
        unit_list = list_ids(sorted(unit or "none" for unit in units))
        context.unit_warning = f"The values have different units ({unit_list})."
        context.warn(context.unit_warning)
    if len(units) != 1:
        return ""
    return units.pop()


def _distinct(context: ExecutionContext, values: Sequence[Scalar]) -> list[Scalar]:
    """Distinct values, in order.

    By the conventions, texts that differ only in case or white space are one value, in the
    spelling that occurs first.
    """
    if context.conventions.distinct_name_matching == "as_written":
        return list(dict.fromkeys(values))
    spellings: dict[Scalar, Scalar] = {}
    for value in reversed(values):
        key = value
        if isinstance(value, str):
            key = normalise_text(value)
        spellings[key] = value
    return list(reversed(spellings.values()))
