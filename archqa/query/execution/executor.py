"""Execution of a query on a record: rows, then the answer, then the supporting resources."""

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from archqa.core.id_lists import list_ids
from archqa.fhir import Record
from archqa.fhir.values.text import normalise_text
from archqa.query.conventions import CLINICAL, Conventions, get_conventions
from archqa.query.execution.chart import Chart
from archqa.query.execution.context import ExecutionContext, uses_end_time
from archqa.query.execution.elements import text_at
from archqa.query.execution.findings import (
    Answer,
    AnswerKind,
    QueryResult,
    Scalar,
    collect_evidence,
)
from archqa.query.execution.named_rows import ConceptMatcher, Series, Wanted, series_by_part
from archqa.query.execution.row_selection import RowSelection, row_matcher, select_rows
from archqa.query.execution.rows import Row, Side, parse_datetime, without_timezone
from archqa.query.model import Against, CannotExecute, Query

_DAYS_PER_UNIT = {
    "minute": 1 / 1440,
    "hour": 1 / 24,
    "day": 1.0,
    "week": 7.0,
    "month": 365.25 / 12,
    "year": 365.25,
}
_MULTIVALUED_FACTS = frozenset(
    {"organism", "care_unit", "ethnicity", "language", "reason", "practitioner", "place"}
    | {"reaction", "activity", "target", "body_site", "frequency", "address", "phone", "email"}
)
_MEASUREMENTS = frozenset({"lab", "vital", "output"})


def row_values(context: ExecutionContext, row: Row) -> list[Scalar]:
    """The values of the returned field: usually one, none if the row does not say."""
    returns = context.query.returns
    if returns == "value":
        return [_result(context, row)]
    if returns == "alive":
        return [row.facts["alive"] == ("yes",)]
    if returns == "dose":
        return _as_list(_dose(context, row))
    if returns in _SINGLE_FIELDS:
        return _as_list(_SINGLE_FIELDS[returns](row))
    if returns in _NUMBER_FIELDS:
        number = _NUMBER_FIELDS[returns](context, row)
        if number is None:
            return []
        return [number]
    facts = row.facts.get(returns, ())
    if returns in _MULTIVALUED_FACTS:
        return list(facts)
    return list(facts[:1])


def row_numbers(context: ExecutionContext, row: Row) -> list[float]:
    """The numbers of the returned field."""
    if context.query.returns == "dose":
        if row.value is None:
            return []
        return [row.value]
    return [value for value in row_values(context, row) if isinstance(value, int | float)]


def _as_list(text: str) -> list[Scalar]:
    if not text:
        return []
    return [text]


def _result(context: ExecutionContext, row: Row) -> Scalar:
    if row.value is not None:
        return row.value
    if context.conventions.include_text_values:
        return row.text or None
    results = row.facts.get("result")
    if results:
        return results[0]
    if context.query.what in _MEASUREMENTS:
        return None
    return row.text or None


def _time_text(time: datetime | None) -> str:
    if time is None:
        return ""
    return f"{time:%Y-%m-%d %H:%M:%S}"


def _start_text(row: Row) -> str:
    return _time_text(row.time)


def _end_text(row: Row) -> str:
    return _time_text(row.end)


def _name(row: Row) -> str:
    return row.name


def _visit_ref(row: Row) -> str:
    if not row.hospital_visit_id:
        return ""
    return f"Encounter/{row.hospital_visit_id}"


def _dose(context: ExecutionContext, row: Row) -> str:
    """The dose as text; by the conventions, the strength in the name where it has no unit."""
    strengths = row.facts.get("strength", ())
    if context.conventions.strength_as_dose and strengths and not row.unit:
        return strengths[0]
    return row.text


_SINGLE_FIELDS: dict[str, Callable[[Row], str]] = {
    "time": _start_text,
    "end_time": _end_text,
    "name": _name,
    "visit": _visit_ref,
}


def _elapsed(context: ExecutionContext, row: Row) -> float | None:
    """From the row's time to the time of the question, both on the local clock."""
    if context.now is None:
        raise CannotExecute(
            "The question asks how much time has passed, but not until when.\nGive the clock (now)."
        )
    if row.local_time is None:
        return None
    return _in_unit(context, context.now - row.local_time)


def _length_of_stay(context: ExecutionContext, row: Row) -> float | None:
    """From start to end, by true time or on the local clock; None for a stay that has not ended."""
    if row.time is None or row.end is None:
        return None
    by_instants = context.conventions.time_comparison == "instants"
    if by_instants and row.time.tzinfo and row.end.tzinfo:
        return _in_unit(context, row.end - row.time)
    local_end = row.end.replace(tzinfo=None)
    local_start = row.time.replace(tzinfo=None)
    return _in_unit(context, local_end - local_start)


def _age(context: ExecutionContext, row: Row) -> float | None:
    """Age in whole years, at most the age at death.

    At the row's time; of a patient row at the requested visit, else at the time of the question.
    """
    patient = context.chart.patient_resource
    birth = without_timezone(parse_datetime(text_at(patient, "birthDate")))
    death = without_timezone(parse_datetime(text_at(patient, "deceasedDateTime")))
    time = row.local_time
    if context.query.what == "patient":
        time = _reference_time(context)
        if time is None and death is None:
            raise CannotExecute(
                "The question asks for an age, but not at what time.\nGive the clock (now)."
            )
    if time is None or (death is not None and death < time):
        time = death
    if birth is None or time is None:
        return None
    return _full_years(birth, time)


def _full_years(birth: datetime, time: datetime) -> int:
    years = time.year - birth.year
    birthday = (birth.month, birth.day)
    if (time.month, time.day) < birthday:
        return years - 1
    return years


def _reference_time(context: ExecutionContext) -> datetime | None:
    """The start of the requested visit, else the time of the question."""
    visit = context.resolve_scope(context.query.when).visit
    visit_start = without_timezone(parse_datetime(text_at(visit, "period.start")))
    return visit_start or context.now


_NUMBER_FIELDS: dict[str, Callable[[ExecutionContext, Row], float | None]] = {
    "elapsed": _elapsed,
    "length_of_stay": _length_of_stay,
    "age": _age,
}


def _in_unit(context: ExecutionContext, duration: timedelta) -> float:
    days = duration / timedelta(days=1)
    return days / _DAYS_PER_UNIT[context.query.unit or "day"]


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
        context.warn(f"The values have different units ({unit_list}).")
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


_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "greater": operator.gt,
    "less": operator.lt,
    "equal": operator.eq,
}


def execute(
    query: Query,
    record: Record,
    patient: str,
    conventions: str | Conventions = CLINICAL,
    *,
    chart: Chart | None = None,
) -> QueryResult:
    """The answer to a query about one patient (a FHIR id), with its rows and supporting resources.

    `conventions` may be a name. Give `chart` to ask several questions about the same patient.
    Raises `CannotExecute` for a query that has no meaning here, `CallerError` for unknown
    conventions, and `FhirError` and `ServerUnavailable` as the record does.
    """
    chart = chart or Chart(record, patient)
    context = ExecutionContext(query, chart, get_conventions(conventions))
    with chart.lock:
        if chart.patient_resource is None:
            context.warn("The record has no such patient.")
        wanted = Wanted(query.names, query.concepts)
        selection = select_rows(context, wanted, query.when)
        if query.against is None:
            matcher = row_matcher(context, wanted)
            answer = aggregate_rows(context, selection.chosen, matcher)
            return _query_result(context, answer, _mark_chosen(selection, "own"))
        return _execute_comparison(context, query.against, selection)


def _execute_comparison(
    context: ExecutionContext, against: Against, own: RowSelection
) -> QueryResult:
    _check_comparable(context, Wanted((), context.query.concepts))
    wanted = Wanted(against.names, against.concepts)
    if wanted.is_everything:
        wanted = Wanted(context.query.names, context.query.concepts)
    _check_comparable(context, wanted)
    opposite = select_rows(context, wanted, against.when)
    answer = _compare(context, against, own, opposite)
    rows = [*_mark_chosen(own, "own"), *_mark_chosen(opposite, "other")]
    return _query_result(context, answer, rows)


def _check_comparable(context: ExecutionContext, wanted: Wanted) -> None:
    """Raise `CannotExecute` for a measurement of several parts, unless rows are only counted."""
    parts = row_matcher(context, wanted).parts
    if parts and context.query.summary != "count":
        names = list_ids(part.name for part in parts)
        raise CannotExecute(
            f"A comparison needs one number, but {wanted} has several parts.\n"
            f"Compare one of them: {names}."
        )


def _compare(
    context: ExecutionContext, against: Against, own: RowSelection, opposite: RowSelection
) -> Answer:
    """The difference, or whether the relation is true; None if one side has no number."""
    own_value = comparison_value(context, own.chosen)
    opposite_value = comparison_value(context, opposite.chosen)
    is_difference = against.relation == "difference"
    kind: AnswerKind = "yes_no"
    if is_difference:
        kind = "number"
    if own_value is None or opposite_value is None:
        _warn_of_missing_sides(context, own_value, opposite_value)
        return Answer(kind=kind, values=(None,))
    if is_difference:
        difference = own_value - opposite_value
        unit = _common_unit([*own.chosen, *opposite.chosen])
        return Answer(kind=kind, values=(difference,), unit=unit)
    is_true = _RELATIONS[against.relation](own_value, opposite_value)
    return Answer(kind=kind, values=(is_true,))


def _common_unit(rows: list[Row]) -> str:
    """The unit of all rows; empty if they differ."""
    units = {row.unit for row in rows}
    if len(units) != 1:
        return ""
    return units.pop()


def _warn_of_missing_sides(
    context: ExecutionContext, own_value: float | None, opposite_value: float | None
) -> None:
    sides = []
    if own_value is None:
        sides.append("first")
    if opposite_value is None:
        sides.append("second")
    missing = " and ".join(sides)
    context.warn(f"There is no number for the {missing} of the two that are compared.")


def _mark_chosen(selection: RowSelection, side: Side) -> list[Row]:
    chosen_ids = {id(row) for row in selection.chosen}
    rows = []
    for row in selection.rows:
        is_chosen = id(row) in chosen_ids
        rows.append(replace(row, chosen=is_chosen, side=side))
    return rows


def _query_result(context: ExecutionContext, answer: Answer, rows: list[Row]) -> QueryResult:
    chosen = [row for row in rows if row.chosen]
    return QueryResult(
        query=context.query,
        patient=context.chart.patient,
        conventions=context.conventions.name,
        answer=answer,
        rows=tuple(rows),
        evidence=collect_evidence(chosen),
        warnings=tuple(context.warnings),
        searched=tuple(context.searched),
        steps=tuple(context.steps),
        left_out=tuple(context.left_out),
    )
