"""The time at which a question about a patient is asked.

    clock(record, patient_id, None).now

It is the present, unless the patient has died, or the dates of the record were shifted (MIMIC's lie
between 2100 and 2200), or it ends decades ago: then "now" is the end of that record. A remark says so.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from archqa.fhir import FhirError, Record, Resource
from archqa.fhir.values.dates import DAY, parse_time_range
from archqa.fhir.values.element_types import is_well_formed
from archqa.query.questions.calendar import read_stated_time

CLOCK_TOLERANCE = timedelta(days=1)
"""Dates that lie so little ahead come from another time zone or a clock that is fast."""

MIN_FUTURE_SHARE = 0.1
"""Below this share of entries, dates in the future are mistakes in writing, and not a shift."""

OLD_AFTER = timedelta(days=20 * 365)
"""A record without an entry in so long a time is asked about as of its end."""

OTHER_TIME = "--now sets another"

_READ_AT_ONCE = 10
"""Latest entries that are read: some are planned, or periods without an end, which sort first."""

_NO_FACT = frozenset({"planned", "cancelled", "entered-in-error"})
"""Statuses of entries whose date was not reached, or is wrong."""

_UNFINISHED = frozenset({"arrived", "triaged", "in-progress", "onleave"})
"""Statuses of encounters whose end is an expectation (hl7.org/fhir/R4/valueset-encounter-status)."""

_OPEN_END = 9999
"""The year that stands for a period without an end."""


class Clock(NamedTuple):
    """The time at which a question is asked; a remark if it is neither the present nor typed."""

    now: datetime
    remark: str = ""


class _Dated(NamedTuple):
    """Resources with dates: the parameter to sort by, and the elements that hold the date."""

    type: str
    parameter: str
    elements: tuple[str, ...]


_MAIN = (
    _Dated("Encounter", "date", ("period",)),
    _Dated(
        "Observation",
        "date",
        ("effectiveDateTime", "effectivePeriod", "effectiveInstant"),
    ),
)
"""Nearly every record has these; they tell in most cases."""

_OTHERS = (
    _Dated("DiagnosticReport", "date", ("effectiveDateTime", "effectivePeriod")),
    _Dated("Procedure", "date", ("performedDateTime", "performedPeriod")),
    _Dated("MedicationRequest", "authoredon", ("authoredOn",)),
    _Dated("Condition", "recorded-date", ("recordedDate",)),
    _Dated("Immunization", "date", ("occurrenceDateTime",)),
    _Dated("DocumentReference", "date", ("date",)),
)

_LAST_DATES: "WeakKeyDictionary[Record, dict[str, date | None]]" = WeakKeyDictionary()
"""The last date of each patient, for records that are open."""


def clock(
    record: Record,
    patient_id: str,
    now: datetime | None,
    *,
    patient: Mapping[str, Any] | None = None,
) -> Clock:
    """Return the time at which a question about a patient is asked: `now` if it is given.

    `patient` is the Patient resource where it is at hand. Raises `ServerUnavailable`.
    """
    if now is not None:
        return Clock(now)
    patient = patient or record.get("Patient", patient_id) or {}
    present = datetime.now()
    try:
        if patient.get("deceasedDateTime") or patient.get("deceasedBoolean") is True:
            death = _moment(patient.get("deceasedDateTime"))
            if death is not None:
                remark = f"The patient died on {death:%Y-%m-%d}: asked as of then; {OTHER_TIME}."
                return Clock(death, remark)
            died = "The patient has died, and the record does not say when"
            last = _last_of_all(record, patient_id)
            if last is None:
                return Clock(present, f"{died}: asked as of today; {OTHER_TIME}.")
            return Clock(
                _end_of(last),
                f"{died}: asked as of its last date, {last}; {OTHER_TIME}.",
            )
        last = _last_date(record, patient_id)
        if last is not None and last > (present + CLOCK_TOLERANCE).date():
            dates = f"dates lie in the future (until {last})"
            # The record was shifted, unless only single dates are wrong.
            if _future_share(record, patient_id, present) >= MIN_FUTURE_SHARE:
                remark = f"The record's {dates}: asked as of that date; {OTHER_TIME}."
                return Clock(_end_of(last), remark)
            remark = f"Some of the record's {dates}: asked as of today; {OTHER_TIME}."
            return Clock(present, remark)
        oldest = (present - OLD_AFTER).date()
        if (
            last is None
            or last >= oldest
            or _has_entry_after(record, patient_id, oldest)
        ):
            return Clock(present)
        last = _last_of_all(record, patient_id) or last
        return Clock(
            _end_of(last),
            f"The record ends on {last}: asked as of that date; {OTHER_TIME}.",
        )
    except FhirError:  # The server does not sort, or not by these parameters.
        remark = f"The server does not tell the record's last date: asked as of today; {OTHER_TIME}."
        return Clock(present, remark)


def stated_time(context: str) -> datetime | None:
    """Return the time that a context states ("Today is 2153-12-31."), None if it states none."""
    if not context:
        return None
    try:
        return datetime.fromisoformat(read_stated_time(context) or "")
    except ValueError:
        return None


def _future_share(record: Record, patient_id: str, present: datetime) -> float:
    """Return the share of entries after the present; 0 if the server does not count."""
    limit = (present + CLOCK_TOLERANCE).date()
    past = total = 0
    for dated in _MAIN:
        params = {"patient": patient_id, "_summary": "count"}
        total += record.search(dated.type, params).total or 0
        # Most entries of a shifted record lie in the future: it is quicker to count the others.
        params[dated.parameter] = f"le{limit}"
        past += record.search(dated.type, params).total or 0
    return (total - past) / total if total else 0.0


def _has_entry_after(record: Record, patient_id: str, limit: date) -> bool:
    """Whether anything happened after a date: also a server that does not sort tells that."""
    for dated in (*_MAIN, *_OTHERS):
        params = {"patient": patient_id, dated.parameter: f"sa{limit}", "_count": "10"}
        with suppress(FhirError):
            if any(
                _dates(record.search(dated.type, params).resources, dated, after=limit)
            ):
                return True
    return False


def _last_date(record: Record, patient_id: str) -> date | None:
    """Return the last date of the encounters and observations, from the cache if it was found."""
    dates = _LAST_DATES.setdefault(record, {})
    if patient_id not in dates:
        dates[patient_id] = _latest(record, patient_id, _MAIN)
    return dates[patient_id]


def _last_of_all(record: Record, patient_id: str) -> date | None:
    dates = [_last_date(record, patient_id)]
    for dated in _OTHERS:
        with suppress(FhirError):
            dates.append(_latest(record, patient_id, (dated,)))
    return max(filter(None, dates), default=None)


def _latest(record: Record, patient_id: str, kinds: tuple[_Dated, ...]) -> date | None:
    latest: date | None = None
    for dated in kinds:
        params = {
            "patient": patient_id,
            "_sort": f"-{dated.parameter}",
            "_count": str(_READ_AT_ONCE),
        }
        resources = record.search(dated.type, params).resources
        latest = max(_dates(resources, dated, after=latest or date.min), default=latest)
    return latest


def _dates(resources: list[Resource], dated: _Dated, after: date) -> Iterator[date]:
    """Yield the last date of each resource that happened, where it is after a date."""
    for resource in filter(is_well_formed, resources):
        status = resource.get("status")
        if status in _NO_FACT:
            continue
        for element in dated.elements:
            value = resource.get(element)
            last = _last_day(value)
            if isinstance(value, Mapping):  # The end of a Period, else its start.
                last = None if status in _UNFINISHED else _last_day(value.get("end"))
                if last is None or last.year >= _OPEN_END:
                    last = _last_day(value.get("start"))
            if last is not None and last > after:
                yield last


def _last_day(text: Any) -> date | None:
    """Return the last day that a date covers, on the clock of the record; None if it is none."""
    covered = parse_time_range(text) if isinstance(text, str) else None
    return date.fromordinal((covered.high - 1) // DAY) if covered else None


def _moment(text: Any) -> datetime | None:
    """Return the time that a dateTime tells, to the next second; the end of a day without one."""
    day = _last_day(text)
    if day is None:
        return None
    if "T" not in text:
        return _end_of(day)
    covered = parse_time_range(text)
    assert covered is not None  # It has a day.
    seconds = -(-(covered.low % DAY) // 1_000_000)
    return datetime.combine(day, time()) + timedelta(seconds=seconds)


def _end_of(day: date) -> datetime:
    """Return the last second of a day, so that all of its entries lie before it."""
    return datetime.combine(day, time(23, 59, 59))
