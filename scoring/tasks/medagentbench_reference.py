"""What the two gradings of MedAgentBench share: the reference values, and the faults they report.

The reference values are read from the patient's record during grading. The record is a function
that answers FHIR searches: `lookup("Patient?identifier=S1")` returns a searchset Bundle.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

Lookup = Callable[[str], Mapping[str, Any]]
Step = str | int

SYSTEM_ERROR = "system_error"
INVALID_FINISH = "invalid_finish_format"
INVALID_RESULT = "invalid_json_result"
MAX_ROUNDS_REACHED = "max_rounds_reached"
READ_ONLY_VIOLATION = "readonly_violation"
WRONG_POST_COUNT = "wrong_post_count"
WRONG_ENDPOINT = "wrong_endpoint"
INVALID_PAYLOAD = "payload_validation_error"
ANSWER_MISMATCH = "answer_mismatch"

_FAULT_OF_STATUS = {
    "task limit reached": MAX_ROUNDS_REACHED,
    "agent invalid action": INVALID_FINISH,
}

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
        bundle = self.lookup(
            f"Observation?patient={self.mrn}&code={code}&_count=5000&_format=json"
        )
        measurements = []
        for entry in bundle.get("entry") or ():
            resource = entry["resource"]
            if self.valid_only:
                quantity = resource.get("valueQuantity") or {}
                has_value = "value" in quantity and "effectiveDateTime" in resource
                if not has_value or resource.get("status") in _VOID:
                    continue
            value = resource["valueQuantity"]["value"]
            written = resource["effectiveDateTime"]
            at = datetime.fromisoformat(written)
            if since is None or at >= since:
                measurements.append(Measurement(value, written, at))
        return measurements

    def latest(self, code: str, since: datetime | None = None) -> Measurement | None:
        """The latest measurement; if several have the same time, the first of them."""
        measurements = self.measured(code, since)
        return max(measurements, key=lambda measurement: measurement.at, default=None)


def mean_value(measurements: Sequence[Measurement]) -> Any:
    """The mean of the values, or -1 without any, as the benchmark wants the answer."""
    if not measurements:
        return -1
    values = [measurement.value for measurement in measurements]
    return sum(values) / len(values)


def age_in_years(born: date, on: date) -> int:
    """The age in whole years on a day."""
    years = on.year - born.year
    if (on.month, on.day) < (born.month, born.day):
        years -= 1
    return years


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


class Fault(NamedTuple):
    """One mistake; `path` is its position in a payload.

    The message has the expected value and never the agent's, which may hold patient data.
    """

    kind: str
    path: str
    message: str


Faults = Iterator[Fault]


def unfinished_fault(status: str) -> Fault:
    """The fault of a conversation that ended without FINISH( )."""
    kind = _FAULT_OF_STATUS.get(status, SYSTEM_ERROR)
    return Fault(kind, "", f"ended without FINISH: {status}")


def dotted(steps: tuple[Step, ...]) -> str:
    """`dosageInstruction[0].route` for ("dosageInstruction", 0, "route")."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path.removeprefix(".")


def require(
    payload: Any,
    is_valid: Callable[[Any], Any],
    expected: str,
    *steps: Step,
) -> Faults:
    """A fault unless there is a value at the path that passes the check."""
    element = payload
    try:
        for step in steps:
            element = element[step]
        valid = bool(is_valid(element))
    except (KeyError, IndexError):
        yield Fault(
            INVALID_PAYLOAD, dotted(steps), f"is missing; it must be {expected}"
        )
        return
    except (TypeError, AttributeError, ValueError, ArithmeticError):
        valid = False
    if not valid:
        yield Fault(INVALID_PAYLOAD, dotted(steps), f"must be {expected}")


def require_equal(payload: Any, expected: Any, *steps: Step) -> Faults:
    """A fault unless the value at the path equals `expected`."""

    return require(payload, lambda element: element == expected, repr(expected), *steps)
