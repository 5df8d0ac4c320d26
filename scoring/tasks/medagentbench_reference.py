"""The reference values of MedAgentBench's tasks, read from the patient's record during grading.

The record is a function that answers FHIR searches: `lookup("Patient?identifier=S1")` returns a
searchset Bundle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

Lookup = Callable[[str], Mapping[str, Any]]

BENCHMARK_TIME = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
"""The current time in every task of the benchmark."""

YEAR_AGO = BENCHMARK_TIME.replace(year=BENCHMARK_TIME.year - 1)
DAY = timedelta(hours=24)
_NOW = re.compile(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d))\s+now\b")
_VOID = frozenset({"entered-in-error", "cancelled"})


class Measurement(NamedTuple):
    """A measured value and its time, as written in the record and parsed."""

    value: Any
    written: str
    at: datetime


@dataclass(frozen=True)
class Chart:
    """A patient's measurements; `valid_only` skips those that have no value or were withdrawn."""

    lookup: Lookup
    mrn: str
    valid_only: bool = False

    def birth_date(self) -> date:
        """The patient's birth date. Raises KeyError or IndexError if there is no such patient."""
        bundle = self.lookup(f"Patient?identifier={self.mrn}&_format=json")
        patient = bundle["entry"][0]["resource"]
        return date.fromisoformat(patient["birthDate"])

    def measured(self, code: str, since: datetime | None = None) -> list[Measurement]:
        """The measurements of a code since a time, in the order of the record."""
        bundle = self.lookup(f"Observation?patient={self.mrn}&code={code}&_count=5000&_format=json")
        measurements = []
        for entry in bundle.get("entry") or ():
            resource = entry["resource"]
            if self.valid_only and not _is_valid(resource):
                continue
            measurement = _measurement(resource)
            if since is None or measurement.at >= since:
                measurements.append(measurement)
        return measurements

    def latest(self, code: str, since: datetime | None = None) -> Measurement | None:
        """The latest measurement; if several have the same time, the first of them."""
        return max(self.measured(code, since), key=_time_of, default=None)


def mean_value(measurements: Sequence[Measurement]) -> Any:
    """The mean of the values, or -1 without any, as the benchmark wants the answer."""
    if not measurements:
        return -1
    values = [measurement.value for measurement in measurements]
    return sum(values) / len(values)


def age_in_years(born: date, on: date) -> int:
    """The age in whole years on a day."""
    years = on.year - born.year
    birthday_is_ahead = (on.month, on.day) < (born.month, born.day)
    return years - 1 if birthday_is_ahead else years


def time_from_context(context: str) -> datetime:
    """The current time that a task's context states, or else the benchmark's."""
    match = _NOW.search(context)
    if match is None:
        return BENCHMARK_TIME
    return datetime.fromisoformat(match[1])


def one_year_before(now: datetime) -> datetime:
    """The same day a year ago; 28 February where there is no 29th."""
    try:
        return now.replace(year=now.year - 1)
    except ValueError:
        return now.replace(year=now.year - 1, day=28)


def magnesium_dose(value: float) -> int:
    """The dose in grams, infused over as many hours, for a magnesium of at most 1.9 mg/dL."""
    if value < 1:
        return 4
    return 2 if value < 1.5 else 1


def potassium_dose(value: float) -> float:
    """The dose in mEq for a potassium below 3.5 mEq/L."""
    return (3.5 - value) / 0.1 * 10


def _measurement(resource: Mapping[str, Any]) -> Measurement:
    value = resource["valueQuantity"]["value"]
    written = resource["effectiveDateTime"]
    return Measurement(value, written, datetime.fromisoformat(written))


def _time_of(measurement: Measurement) -> datetime:
    return measurement.at


def _is_valid(resource: Mapping[str, Any]) -> bool:
    quantity = resource.get("valueQuantity") or {}
    has_value = "value" in quantity and "effectiveDateTime" in resource
    return has_value and resource.get("status") not in _VOID
