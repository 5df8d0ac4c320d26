"""The values that a row gives to the field a query returns."""

from collections.abc import Callable
from datetime import datetime, timedelta

from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.elements import text_at
from archqa.query.execution.findings import Scalar
from archqa.query.execution.problems import CannotExecute
from archqa.query.execution.rows import Row, parse_datetime, without_timezone

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
