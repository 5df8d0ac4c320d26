"""Extract the searchable values of an element: coded terms, time ranges, targets, strings, amounts.

Which datatype gives which: hl7.org/fhir/R4/search.html, tables under "token", "date", "string",
"quantity". A value of an unknown shape gives nothing: a record is loaded as it is and found by what
is understood.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from archqa.fhir.values.dates import TimeRange, parse_time_range, period_range
from archqa.fhir.values.references import ReferenceTarget, parse_reference
from archqa.fhir.values.text import normalise_text

_NAME_AND_ADDRESS_PARTS = (
    "text",
    "family",
    "given",
    "prefix",
    "suffix",
    "line",
    "city",
    "district",
    "state",
    "postalCode",
    "country",
)


class CodedTerm(NamedTuple):
    """A code with its system and text.

    `system` is None where it is implied (plain codes), "" where it is absent.
    """

    system: str | None
    code: str | None
    text: str | None


class Amount(NamedTuple):
    """The range a quantity may lie in (a single number without a comparator), and its unit."""

    low: float
    high: float
    unit: CodedTerm


_NO_UNIT = CodedTerm(None, None, None)
_CURRENCIES = "urn:iso:std:iso:4217"


def extract_terms(value: Any) -> Iterator[CodedTerm]:
    """Yield the terms of a CodeableConcept, Coding, Identifier, ContactPoint, code or boolean."""
    if isinstance(value, dict):
        yield from _complex_terms(value)
    elif isinstance(value, bool):
        yield CodedTerm(None, "true" if value else "false", None)
    elif isinstance(value, str):
        yield CodedTerm(None, value, None)


def _complex_terms(value: dict[str, Any]) -> Iterator[CodedTerm]:
    codings = value.get("coding")
    if isinstance(codings, list):
        for coding in codings:
            if isinstance(coding, dict):
                yield _term(coding, "code", _string(coding, "display"))
    if "value" in value:
        yield _term(value, "value", None)
    elif "code" in value and codings is None:
        yield _term(value, "code", _string(value, "display"))
    elif "text" in value:
        yield CodedTerm(None, None, _string(value, "text"))


def _term(value: dict[str, Any], code_member: str, text: str | None) -> CodedTerm:
    return CodedTerm(_string(value, "system") or "", _string(value, code_member), text)


def _string(value: dict[str, Any], member: str) -> str | None:
    string = value.get(member)
    return string if isinstance(string, str) else None


def extract_time_ranges(value: Any) -> Iterator[TimeRange]:
    """Yield what a date, dateTime, instant, Period or Timing covers."""
    if isinstance(value, str):
        time_range = parse_time_range(value)
    elif not isinstance(value, dict):
        return
    elif "start" in value or "end" in value:
        time_range = period_range(_string(value, "start"), _string(value, "end"))
    else:
        yield from _timing_ranges(value)
        return
    if time_range is not None:
        yield time_range


def _timing_ranges(timing: dict[str, Any]) -> Iterator[TimeRange]:
    events = timing.get("event")
    if isinstance(events, list):
        for event in events:
            if isinstance(event, str):
                yield from extract_time_ranges(event)
    repeat = timing.get("repeat")
    bounds = repeat.get("boundsPeriod") if isinstance(repeat, dict) else None
    if isinstance(bounds, dict) and ("start" in bounds or "end" in bounds):
        yield from extract_time_ranges(bounds)


def extract_targets(value: Any) -> Iterator[ReferenceTarget]:
    """Yield what a Reference points to.

    References into the resource itself (`#…`) and mere identifiers point nowhere.
    """
    reference = value.get("reference") if isinstance(value, dict) else None
    target = parse_reference(reference) if isinstance(reference, str) else None
    if target is not None:
        yield target


def extract_strings(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the parts of a string, HumanName or Address: each normalised, and as it is written."""
    if isinstance(value, str):
        yield normalise_text(value), value
    elif isinstance(value, dict):
        for member in _NAME_AND_ADDRESS_PARTS:
            parts = value.get(member)
            for part in parts if isinstance(parts, list) else (parts,):
                if isinstance(part, str):
                    yield normalise_text(part), part


def extract_typed_identifiers(value: Any) -> Iterator[CodedTerm]:
    """Yield the codes of an Identifier's type, each as `code|value`: what `:of-type` looks at."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), dict):
        return
    number = _string(value, "value")
    for term in extract_terms(value["type"]):
        if term.code is not None and number is not None:
            yield CodedTerm(term.system, f"{term.code}|{number}", None)


def extract_uris(value: Any) -> Iterator[str]:
    """Yield a URI; of a canonical URL with a version also the URL alone."""
    if isinstance(value, str):
        yield value
        url, bar, _ = value.partition("|")
        if bar:
            yield url


def extract_amounts(value: Any) -> Iterator[Amount]:
    """Yield the range of a Quantity, Money, Range or number."""
    number, unit, comparator = value, _NO_UNIT, None
    if isinstance(value, dict):
        if "low" in value or "high" in value:
            yield from _range_amounts(value)
            return
        number = value.get("value")
        comparator = value.get("comparator")
        unit = _unit(value)
    low = high = _number(number)
    if low is None or high is None:
        return
    # Tuples, not sets: an invalid comparator may be a list, which cannot be hashed.
    if comparator in ("<", "<="):
        low = -math.inf
    elif comparator in (">", ">="):
        high = math.inf
    yield Amount(low, high, unit)


def _unit(quantity: dict[str, Any]) -> CodedTerm:
    currency = _string(quantity, "currency")
    if currency is not None:
        return CodedTerm(_CURRENCIES, currency, None)
    members = [_string(quantity, member) for member in ("system", "code", "unit")]
    return CodedTerm(*members)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _range_amounts(value: dict[str, Any]) -> Iterator[Amount]:
    """Yield the amount of a Range; it is open on a side without a number."""
    sides = [value.get(member) for member in ("low", "high")]
    quantities = [side for side in sides if isinstance(side, dict)]
    low, high = (_number(side.get("value")) if isinstance(side, dict) else None for side in sides)
    if quantities and not (low is None and high is None):
        yield Amount(
            low=-math.inf if low is None else low,
            high=math.inf if high is None else high,
            unit=_unit(quantities[0]),
        )
