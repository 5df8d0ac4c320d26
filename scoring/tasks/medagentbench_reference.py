"""What the record says: the values that MedAgentBench's tasks are graded against, read when they are graded.

The record is anything that answers a FHIR search: `lookup("Patient?identifier=S1")` gives a searchset Bundle.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

Lookup = Callable[[str], Mapping[str, Any]]

BENCHMARK_TIME = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
"""What time it is in every task of the benchmark."""

YEAR_AGO = BENCHMARK_TIME.replace(year=BENCHMARK_TIME.year - 1)
DAY = timedelta(hours=24)
_NOW = re.compile(r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d))\s+now\b")
_VOID = frozenset({"entered-in-error", "cancelled"})


class Measurement(NamedTuple):
    """One measurement: its value, and when, as written and as an instant."""

    value: Any
    written: str
    at: datetime


@dataclass(frozen=True)
class Chart:
    """One patient's measurements. `careful` leaves out what has no value or was withdrawn."""

    lookup: Lookup
    mrn: str
    valid_only: bool = False

    def birth_date(self) -> date:
        """Raises KeyError or IndexError if there is no such patient."""
        bundle = self.lookup(f"Patient?identifier={self.mrn}&_format=json")
        return date.fromisoformat(bundle["entry"][0]["resource"]["birthDate"])

    def measured(self, code: str, since: datetime | None = None) -> list[Measurement]:
        """The measurements of this code, as the record orders them."""
        bundle = self.lookup(f"Observation?patient={self.mrn}&code={code}&_count=5000&_format=json")
        resources = [entry["resource"] for entry in bundle.get("entry") or ()]
        found = [_measured(each) for each in resources if not self.valid_only or _is_good(each)]
        return [each for each in found if since is None or each.at >= since]

    def latest(self, code: str, since: datetime | None = None) -> Measurement | None:
        """The latest measurement; of several at one time the first."""
        return latest(self.measured(code, since))


def latest(found: Sequence[Measurement]) -> Measurement | None:
    """The latest of several; the first of those at the same time."""
    last: Measurement | None = None
    for each in found:
        if last is None or each.at > last.at:
            last = each
    return last


def age_in_years(born: date, on: date) -> int:
    """Whole years."""
    return on.year - born.year - ((on.month, on.day) < (born.month, born.day))


def time_from_context(context: str) -> datetime:
    """The time a task's context names, else the benchmark's."""
    found = _NOW.search(context)
    return datetime.fromisoformat(found[1]) if found else BENCHMARK_TIME


def one_year_before(now: datetime) -> datetime:
    """The same day a year ago; 28 February where there is no 29th."""
    try:
        return now.replace(year=now.year - 1)
    except ValueError:
        return now.replace(year=now.year - 1, day=28)


def magnesium_dose(value: float) -> int:
    """Grams, and as many hours, for a serum magnesium in mg/dL of at most 1.9."""
    return 4 if value < 1 else 2 if value < 1.5 else 1


def potassium_dose(value: float) -> float:
    """mEq for a serum potassium below 3.5."""
    return (3.5 - value) / 0.1 * 10


def _measured(resource: Mapping[str, Any]) -> Measurement:
    written = resource["effectiveDateTime"]
    return Measurement(resource["valueQuantity"]["value"], written, datetime.fromisoformat(written))


def _is_good(resource: Mapping[str, Any]) -> bool:
    quantity = resource.get("valueQuantity") or {}
    return (
        "effectiveDateTime" in resource
        and "value" in quantity
        and resource.get("status") not in _VOID
    )
