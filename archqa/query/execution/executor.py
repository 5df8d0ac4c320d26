"""Execution of a query on a record: rows, then the answer, then the supporting resources."""

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from statistics import fmean
from typing import Literal

from archqa.core.id_lists import list_ids
from archqa.fhir import Record
from archqa.fhir.values.text import normalise_text
from archqa.query.conventions import CLINICAL, Conventions, get_conventions
from archqa.query.execution.chart import Chart
from archqa.query.execution.context import ExecutionContext, uses_end_time
from archqa.query.execution.elements import local_time_at
from archqa.query.execution.findings import (
    Answer,
    AnswerKind,
    QueryResult,
    Scalar,
    collect_evidence,
)
from archqa.query.execution.named_rows import (
    EVERYTHING,
    ConceptMatcher,
    Series,
    Wanted,
    concept_matcher,
    series_by_part,
)
from archqa.query.execution.row_selection import RowSelection, select_rows
from archqa.query.execution.rows import (
    Row,
    Side,
    extreme_rows,
)
from archqa.query.kinds import KINDS, LISTS
from archqa.query.model import (
    MEASUREMENT_KINDS,
    TIME_FIELDS,
    Against,
    Aggregation,
    CannotExecute,
    Query,
)
from archqa.query.values import DAYS_PER_UNIT, Interval

_RELATIONS: dict[str, Callable[[float, float], bool]] = {
    "greater": operator.gt,
    "less": operator.lt,
    "equal": operator.eq,
}
_PERIOD_LENGTH = {"day": 10, "month": 7, "year": 4}
"""Leading characters of an ISO time: 2133-12-31, 2133-12, 2133."""

_READERS_OF_DRUGS = frozenset({"medications", "administrations"})
_PEOPLE = ("Practitioner", "PractitionerRole", "RelatedPerson", "CareTeam")
_TYPES_OF_FIELDS: dict[str, tuple[str, ...]] = {
    "practitioner": _PEOPLE,
    "place": (*_PEOPLE, "Organization", "Location"),
    "care_unit": ("Location",),
    "reason": ("Condition",),
    "specimen": ("Specimen",),
}
"""Types of what a row refers to, by the field that tells it."""

_NUMBERS = frozenset({"value", "elapsed", "length_of_stay", "age"})
_REPEATABLE = frozenset({"value", "dose", "elapsed", "length_of_stay"})
_COMBINATIONS: dict[str, Callable[[list[float]], float]] = {
    "minimum": min,
    "maximum": max,
    "average": fmean,
    "sum": sum,
}
_WITHOUT_UNIT = frozenset({"count", "count_distinct", "exists"})
_YEARS = frozenset({"a", "year", "years", "yr", "yrs"})


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
        rows = _mark_chosen(selection, "own")
        if query.against is None:
            matcher = concept_matcher(context, query.what, wanted)
            answer = _aggregate_rows(context, selection.chosen, matcher)
        else:
            opposite = _select_opposite(context, query.against)
            rows += _mark_chosen(opposite, "other")
            answer = _compare(context, query.against, selection.chosen, opposite.chosen)
    return QueryResult(
        query=query,
        patient=chart.patient,
        conventions=context.conventions.name,
        answer=answer,
        rows=tuple(rows),
        evidence=collect_evidence([row for row in rows if row.chosen]),
        caveats=tuple(context.caveats),
        searched=tuple(context.searched),
        steps=tuple(context.steps),
        left_out=tuple(context.left_out),
        undecided=tuple(context.undecided),
        gaps=tuple(chart.gaps(_types_of_rows(query))),
    )


def _types_of_rows(query: Query) -> dict[str, None]:
    """The types of resources that the rows of a query, and what it returns of them, may be in."""
    kinds = [KINDS[query.what]]
    if query.companion is not None:
        kinds.append(KINDS[query.companion.what])
    types: dict[str, None] = {}
    for kind in kinds:
        types.update(dict.fromkeys(source.type for source in kind.sources))
        if kind.reader in _READERS_OF_DRUGS:
            types["Medication"] = None
    if query.when.visit is not None or query.what == "care_unit":
        types["Encounter"] = None
    types.update(dict.fromkeys(_TYPES_OF_FIELDS.get(query.returns, ())))
    return types


def _mark_chosen(selection: RowSelection, side: Side) -> list[Row]:
    chosen_ids = {id(row) for row in selection.chosen}
    return [
        replace(row, chosen=id(row) in chosen_ids, side=side) for row in selection.rows
    ]


def _select_opposite(context: ExecutionContext, against: Against) -> RowSelection:
    """The rows of the other side of a comparison.

    Raises `CannotExecute` where a side is a measurement of several parts, unless rows are counted.
    """
    query = context.query
    wanted = Wanted(against.names, against.concepts)
    if wanted == EVERYTHING:
        wanted = Wanted(query.names, query.concepts)
    for side in (Wanted((), query.concepts), wanted):
        parts = concept_matcher(context, query.what, side).parts
        if parts and query.summary != "count":
            names = list_ids(part.name for part in parts)
            raise CannotExecute(
                f"A comparison needs one number, but {side} has several parts.\n"
                f"Compare one of them: {names}."
            )
    return select_rows(context, wanted, against.when)


def _compare(
    context: ExecutionContext,
    against: Against,
    rows: Sequence[Row],
    opposite: Sequence[Row],
) -> Answer:
    """The difference, or whether the relation is true; None if one side has no number."""
    kind: AnswerKind = "number" if against.relation == "difference" else "yes_no"
    if rows and opposite:
        # Of bounds, a comparison may be unknown.
        summary = context.query.summary
        first, second = (_interval(summary, side) for side in (rows, opposite))
        if first and second and not (first.is_exact and second.is_exact):
            return _compare_intervals(context, against, first.minus(second))
    number = _compared_number(context, rows)
    opposite_number = _compared_number(context, opposite)
    if number is None or opposite_number is None:
        sides = []
        if number is None:
            sides.append("first")
        if opposite_number is None:
            sides.append("second")
        missing = " and ".join(sides)
        context.warn(
            f"There is no number for the {missing} of the two that are compared."
        )
        return Answer(kind=kind, values=(None,))
    if against.relation == "difference":
        units = {row.unit for row in (*rows, *opposite)}
        unit = units.pop() if len(units) == 1 else ""
        return Answer(kind=kind, values=(number - opposite_number,), unit=unit)
    return Answer(
        kind=kind, values=(_RELATIONS[against.relation](number, opposite_number),)
    )


def _interval(summary: Aggregation, rows: Sequence[Row]) -> Interval | None:
    """The numbers that one side of a comparison may be; None if it is no number of values."""
    if summary == "each":
        return rows[0].interval
    intervals = [row.interval for row in rows if row.interval]
    combine = _COMBINATIONS.get(summary)
    if combine is None or not intervals:
        return None
    lows, highs = ([each[end] for each in intervals] for end in (0, 1))
    return Interval(combine(lows), combine(highs))


def _compare_intervals(
    context: ExecutionContext, against: Against, difference: Interval
) -> Answer:
    if against.relation == "difference":
        context.warn("A difference to a bound or a range is not exact.")
        return Answer(kind="number", values=(None,))
    answer = difference.satisfies(against.relation, 0)
    if answer is None:
        context.warn("A bound or a range does not decide the comparison.")
    return Answer(kind="yes_no", values=(answer,))


def _compared_number(context: ExecutionContext, rows: Sequence[Row]) -> float | None:
    """The number of one side of a comparison; None if it has none.

    It is the aggregate; without an aggregation, the value of the first row.
    """
    summary = context.query.summary
    if summary == "count":
        return float(len(rows))
    if summary == "each":
        if len({row.value for row in rows}) > 1:
            context.warn(
                "Several values share the time that is asked for: the first of them counts."
            )
        numbers = [number for row in rows[:1] for number in _numbers(context, row)]
        return next(iter(numbers), None)
    value = _aggregate(context, rows)
    return float(value) if isinstance(value, int | float) else None


def _aggregate_rows(
    context: ExecutionContext, rows: Sequence[Row], matcher: ConceptMatcher
) -> Answer:
    """The answer of the rows to a query that compares nothing.

    `matcher` tells the parts of a measurement: each has a number of its own.
    """
    query = context.query
    if query.summary == "exists":
        exists: bool | None = bool(rows)
        if not rows and any(row.interval for row in context.undecided):
            exists = None
        if context.conventions.statuses == "obeyed" and query.returns in {
            "alive",
            "death_time",
        }:
            alive = any(row.facts["alive"] == ("yes",) for row in rows)
            exists = alive == (query.returns == "alive")
        return Answer(kind="yes_no", values=(exists,))
    all_series = series_by_part(rows, matcher)
    if query.per is not None:
        return _aggregate_by_period(context, all_series)
    if query.summary == "count":
        count = len(rows)
        if matcher.parts:  # A measurement of several parts counts once a time.
            count = len({row.time or id(row) for row in rows})
        return Answer(kind="count", values=(count,))
    if query.summary == "count_distinct":
        distinct_values = _distinct(context, _all_values(context, rows))
        return Answer(kind="count", values=(len(distinct_values),))
    if query.summary == "each":
        # Names and times once, results and doses as often as they occur.
        values = _all_values(context, rows)
        kind = _answer_kind(query)
        if (
            kind == "number"
            and values
            and all(isinstance(value, str) for value in values)
        ):
            kind = "text"
        if query.returns not in _REPEATABLE:
            values = _distinct(context, values)
        return Answer(kind=kind, values=tuple(values), unit=_shared_unit(context, rows))
    if not matcher.concepts:
        _warn_of_mixed_tests(context, rows)
    return Answer(
        kind=_answer_kind(query),
        values=tuple(_aggregate(context, series.rows) for series in all_series),
        unit=_shared_unit(context, rows),
        names=tuple(series.name for series in all_series if series.name),
    )


def _warn_of_mixed_tests(context: ExecutionContext, rows: Sequence[Row]) -> None:
    """A number of the results of several tests means little."""
    if context.conventions.name_matching != "words" or context.query.returns != "value":
        return
    names = {}
    for row in rows:
        if row.value is not None:
            names[frozenset((coding.system, coding.code) for coding in row.codings)] = (
                row.name
            )
    distinct_names = sorted(set(names.values()))
    if len(distinct_names) > 1:
        listed = list_ids(distinct_names)
        context.warn(f"The values are of {len(names)} different tests: {listed}.")


def _aggregate_by_period(
    context: ExecutionContext, all_series: Sequence[Series]
) -> Answer:
    """One value for each day, month or year that has one, oldest first; each part by itself."""
    query = context.query
    is_count = query.summary == "count"
    by_end = uses_end_time(query)
    length = _PERIOD_LENGTH[query.per or "day"]
    periods: list[str] = []
    values: list[Scalar] = []
    names: list[str] = []
    rows: list[Row] = []
    for series in all_series:
        rows += series.rows
        rows_by_period: dict[str, list[Row]] = defaultdict(list)
        for row in series.rows:
            time = row.local_end if by_end else row.local_time
            if time is not None:
                rows_by_period[time.isoformat()[:length]].append(row)
        for period, period_rows in sorted(rows_by_period.items()):
            value = len(period_rows) if is_count else _aggregate(context, period_rows)
            if value is not None:
                periods.append(period)
                values.append(value)
                names.append(series.name)
    return Answer(
        kind="count" if is_count else "number",
        values=tuple(values),
        unit=_shared_unit(context, rows),
        periods=tuple(periods),
        names=tuple(filter(None, names)),
    )


def _aggregate(context: ExecutionContext, rows: Sequence[Row]) -> Scalar:
    """The minimum, maximum, average, sum or change; None without values."""
    query = context.query
    if query.returns in TIME_FIELDS:
        times = list(map(str, _all_values(context, rows)))
        if not times:
            return None
        return min(times) if query.summary == "minimum" else max(times)
    if query.returns == "value" and query.summary in {"minimum", "maximum"}:
        return _extreme_value(context, rows)
    numbers: list[float] = []
    for row in rows:
        if query.returns == "value" and _is_inexact(row):
            context.undecided.append(row)
        numbers += _numbers(context, row)
    if query.summary == "change":
        if len(numbers) < 2:
            context.warn("A change needs two values of different times.")
            return None
        if context.undecided and not _has_known_direction(rows):
            return None
        return numbers[-1] - numbers[0]
    if not numbers:
        return None
    if query.summary == "minimum":
        return min(numbers)
    if query.summary == "maximum":
        return max(numbers)
    total = sum(numbers)
    return total / len(numbers) if query.summary == "average" else total


def _numbers(context: ExecutionContext, row: Row) -> list[float]:
    """The numbers of the returned field; of a dose, which is a text, its amount."""
    values: list[Scalar] = [row.value]
    if context.query.returns != "dose":
        values = _row_values(context, row)
    return [value for value in values if isinstance(value, int | float)]


def _extreme_value(context: ExecutionContext, rows: Sequence[Row]) -> Scalar:
    """The smallest or largest value: a number or a bound; of a range, its text."""
    extreme: Literal["minimum", "maximum"] = (
        "minimum" if context.query.summary == "minimum" else "maximum"
    )
    decisive, undecided = extreme_rows(rows, extreme)
    context.undecided += undecided
    return _result(context, decisive[0]) if decisive else None


def _has_known_direction(rows: Sequence[Row]) -> bool:
    """Whether the record tells that the last value is above, or below, the first."""
    first, last = rows[0].interval, rows[-1].interval
    if first is None or last is None:
        return False
    difference = last.minus(first)
    return any(difference.satisfies(relation, 0) for relation in ("greater", "less"))


def _is_inexact(row: Row) -> bool:
    """Whether the value is a bound, a range, or a text without a number."""
    interval = row.interval
    return not interval.is_exact if interval else bool(row.text)


def _answer_kind(query: Query) -> AnswerKind:
    if query.returns in TIME_FIELDS:
        return "time"
    if query.returns in _NUMBERS or (
        query.returns == "dose" and query.summary != "each"
    ):
        return "number"
    if query.returns == "alive":
        return "yes_no"
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
        context.warn(f"The values have different units ({unit_list}).", "mixed_units")
    return units.pop() if len(units) == 1 else ""


def _distinct(context: ExecutionContext, values: Sequence[Scalar]) -> list[Scalar]:
    """Distinct values, in order.

    By the conventions, texts that differ only in case or white space are one value, in the
    spelling that occurs first.
    """
    if context.conventions.distinct_name_matching == "as_written":
        return list(dict.fromkeys(values))
    spellings: dict[Scalar, Scalar] = {}
    for value in reversed(values):
        key = normalise_text(value) if isinstance(value, str) else value
        spellings[key] = value
    return list(reversed(spellings.values()))


def _all_values(context: ExecutionContext, rows: Iterable[Row]) -> list[Scalar]:
    values: list[Scalar] = []
    for row in rows:
        values += _row_values(context, row)
    return values


def _row_values(context: ExecutionContext, row: Row) -> list[Scalar]:
    """The values of the returned field: usually one, none if the row does not say."""
    returns = context.query.returns
    if returns == "value":
        return [_result(context, row)]
    if returns == "alive":
        return [row.facts["alive"] == ("yes",)]
    value: Scalar
    if returns in _DERIVED_NUMBERS:
        value = _DERIVED_NUMBERS[returns](context, row)
    elif returns in {"time", "end_time"}:
        time = row.time if returns == "time" else row.end
        value = f"{time:%Y-%m-%d %H:%M:%S}" if time else None
    elif returns == "name":
        value = row.name or None
    elif returns == "visit":
        value = f"Encounter/{row.hospital_visit_id}" if row.hospital_visit_id else None
    elif returns == "dose":
        value = _dose(context, row) or None
    else:
        facts = row.fact(returns)
        return list(facts if returns in LISTS["multivalued_facts"] else facts[:1])
    return [] if value is None else [value]


def _result(context: ExecutionContext, row: Row) -> Scalar:
    if row.value is not None:
        return row.value
    if context.conventions.include_text_values:
        return row.text or None
    results = row.fact("result")
    if results:
        return results[0]
    if context.query.what in MEASUREMENT_KINDS:
        return None
    return row.text or None


def _dose(context: ExecutionContext, row: Row) -> str:
    """The dose as text; by the conventions, the strength in the name where it has no unit."""
    strengths = row.fact("strength")
    if context.conventions.strength_as_dose and strengths and not row.unit:
        return strengths[0]
    return row.text


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
    return _in_unit(
        context, row.end.replace(tzinfo=None) - row.time.replace(tzinfo=None)
    )


def _in_unit(context: ExecutionContext, duration: timedelta) -> float:
    days = duration / timedelta(days=1)
    return days / DAYS_PER_UNIT[context.query.unit or "day"]


def _age(context: ExecutionContext, row: Row) -> float | None:
    """Age in whole years, at most the age at death.

    At the row's time; of a patient row at the requested visit, else at the time of the question.
    An age that is recorded instead of a time is that age.
    """
    for recorded in row.fact("age_at_time"):
        number, _, unit = recorded.partition(" ")
        return float(number) if unit in _YEARS and number.isdecimal() else None
    patient = context.chart.patient_resource
    birth = local_time_at(patient, "birthDate")
    death = local_time_at(patient, "deceasedDateTime")
    time = row.local_time
    if context.query.what == "patient":
        if context.query.when.spans and context.conventions.statuses == "obeyed":
            raise CannotExecute(
                "A patient is of no time, so that no age is known.\nLimit it by a visit."
            )
        visits = context.resolve_scope(context.query.when).visits
        time = local_time_at(next(iter(visits), None), "period.start") or context.now
        if time is None and death is None:
            raise CannotExecute(
                "The question asks for an age, but not at what time.\nGive the clock (now)."
            )
    if time is None or (death is not None and death < time):
        time = death
    if birth is None or time is None:
        return None
    years = time.year - birth.year
    had_birthday = (time.month, time.day) >= (birth.month, birth.day)
    return years if had_birthday else years - 1


_DERIVED_NUMBERS: dict[str, Callable[[ExecutionContext, Row], float | None]] = {
    "elapsed": _elapsed,
    "length_of_stay": _length_of_stay,
    "age": _age,
}
