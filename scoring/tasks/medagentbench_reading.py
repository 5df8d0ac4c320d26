"""Lenient comparison for the clinical grading: times, numbers, routes, units, codes and URLs.

A value is accepted in any spelling that a careful reviewer would read as the same value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal

ROUNDING_TOLERANCE = 0.01
"""Values that differ by less are the same but for rounding; laboratories give one or two decimals."""

_NUMBER = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([A-Za-z%/]*)\s*")
_UNITS = {
    "g": {"g", "gram", "grams", "gm"},
    "h": {"h", "hr", "hrs", "hour", "hours"},
    "meq": {"meq", "mmol", "milliequivalent", "milliequivalents"},
}
_ROUTES = {
    "iv": {"iv", "intravenous", "intravenous route", "intravenous use", "47625008"},
    "oral": {"oral", "po", "by mouth", "oral route", "oral use", "26643006"},
}


_GRAM_PER_HOUR = {"g/h", "g/hr", "g/hour"}


def parse_number(value: Any) -> float | None:
    """A number, also as a text or with its unit; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str):
        return None
    match = _NUMBER.fullmatch(value)
    return float(match[1]) if match else None


def is_number(value: Any, expected: float, tolerance: float = ROUNDING_TOLERANCE) -> bool:
    """Whether the value is this number, within the tolerance."""
    number = parse_number(value)
    if number is None:
        return False
    return abs(number - expected) < tolerance + 1e-9


def parse_time(value: Any) -> datetime | None:
    """The time that an ISO 8601 text states with its zone; None for anything else."""
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else None


def is_time(value: Any, expected: datetime, *, to: Literal["second", "minute"] = "second") -> bool:
    """Whether the value is this time, in any zone, to the second or to the minute."""
    time = parse_time(value)
    if time is None:
        return False
    return _truncate(time.astimezone(expected.tzinfo), to) == _truncate(expected, to)


def iter_texts(value: Any) -> Iterator[str]:
    """All strings in a JSON value, such as the text, displays and codes of a route."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for element in value:
            yield from iter_texts(element)
    elif isinstance(value, dict):
        for element in value.values():
            yield from iter_texts(element)


def is_route(value: Any, expected: str) -> bool:
    """Whether a route, as a text or as an object, is `iv` or `oral`."""
    return any(normalise_spacing(text) in _ROUTES[expected] for text in iter_texts(value))


def is_unit(value: Any, expected: str) -> bool:
    """Whether a text is a spelling of g, h or meq."""
    return isinstance(value, str) and normalise_spacing(value) in _UNITS[expected]


def is_amount(
    quantity: Any, value: float, unit: str, tolerance: float = ROUNDING_TOLERANCE
) -> bool:
    """Whether a quantity has this value and unit (g, h or meq).

    Raises KeyError, TypeError or AttributeError for a value that is not a FHIR Quantity.
    """
    if not is_number(quantity["value"], value, tolerance):
        return False
    return is_unit(quantity.get("unit") or quantity["code"], unit)


def is_infusion_duration(rate: Any, hours: int) -> bool:
    """Whether a rate is this many hours, or one gram per hour as FHIR would state it.

    The two agree for every dose of the benchmark, which is as many grams as hours.
    """
    unit = rate.get("unit") or rate["code"]
    if is_number(rate["value"], 1) and remove_spaces(unit) in _GRAM_PER_HOUR:
        return True
    return is_amount(rate, hours, "h")


def normalise_spacing(text: str) -> str:
    """The text in lower case, with single spaces between its words and none around."""
    return " ".join(text.lower().split())


def remove_spaces(text: Any) -> str:
    """The text in lower case, without spaces."""
    return "".join(str(text).lower().split())


def has_code(concept: Any, system: str, code: str) -> bool:
    """Whether a CodeableConcept has a coding with this system and code."""
    codings = concept.get("coding") if isinstance(concept, dict) else None
    if not isinstance(codings, list):
        return False
    return any(_is_coding(coding, system, code) for coding in codings)


def refers_to_patient(reference: Any, mrn: str) -> bool:
    """Whether a subject is this patient: `Patient/id`, also behind the server's address."""
    text = reference.get("reference") if isinstance(reference, dict) else None
    if not isinstance(text, str):
        return False
    segments = text.strip("/").split("/")
    return segments[-2:] == ["Patient", mrn]


def last_path_segment(url: str) -> str:
    """`Observation` for `http://localhost:8080/fhir//Observation/`."""
    path, _, _ = url.partition("?")
    return path.rstrip("/").rpartition("/")[2]


def _truncate(time: datetime, to: Literal["second", "minute"]) -> datetime:
    if to == "minute":
        return time.replace(second=0, microsecond=0)
    return time.replace(microsecond=0)


def _is_coding(coding: Any, system: str, code: str) -> bool:
    if not isinstance(coding, dict) or coding.get("code") != code:
        return False
    coding_system = coding.get("system")
    if not isinstance(coding_system, str):
        return False
    return coding_system.rstrip("/").lower() == system
