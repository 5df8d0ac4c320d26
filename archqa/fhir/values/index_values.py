"""What an element's value is for a search: terms, stretches of time, targets, strings, amounts.

Which datatype gives what: hl7.org/fhir/R4/search.html, the tables under "token", "date", "string" and "quantity".
A value of an unforeseen shape gives nothing: a record is loaded as it is, and found by what can be understood.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from archqa.fhir.values.dates import TimeRange, parse_time_range, period_range
from archqa.fhir.values.references import ReferenceTarget, parse_reference
from archqa.fhir.values.tokens import normalise_text

_NAME_OR_ADDRESS = (
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
    """A code with its system and words. `system` is None where it is implied (plain codes), "" where it is absent."""

    system: str | None
    code: str | None
    words: str | None


class Amount(NamedTuple):
    """The range a quantity may lie in (both ends the same without a comparator), and its unit."""

    low: float
    high: float
    unit: CodedTerm


def extract_terms(value: Any) -> Iterator[CodedTerm]:
    """The terms of a CodeableConcept, Coding, Identifier, ContactPoint, code, string or boolean."""
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
                yield _term(coding, "code", _text(coding, "display"))
    if "value" in value:
        yield _term(value, "value", None)
    elif "code" in value and codings is None:
        yield _term(value, "code", _text(value, "display"))
    elif "text" in value:
        yield CodedTerm(None, None, _text(value, "text"))


def _term(value: dict[str, Any], code: str, words: str | None) -> CodedTerm:
    return CodedTerm(_text(value, "system") or "", _text(value, code), words)


def _text(value: dict[str, Any], name: str) -> str | None:
    found = value.get(name)
    return found if isinstance(found, str) else None


def extract_time_ranges(value: Any) -> Iterator[TimeRange]:
    """What a date, dateTime, instant, Period or Timing covers."""
    if isinstance(value, str):
        found = parse_time_range(value)
    elif not isinstance(value, dict):
        return
    elif "start" in value or "end" in value:
        found = period_range(_text(value, "start"), _text(value, "end"))
    else:
        yield from _timing(value)
        return
    if found is not None:
        yield found


def _timing(value: dict[str, Any]) -> Iterator[TimeRange]:
    events = value.get("event")
    for event in events if isinstance(events, list) else ():
        if isinstance(event, str):
            yield from extract_time_ranges(event)
    repeat = value.get("repeat")
    bounds = repeat.get("boundsPeriod") if isinstance(repeat, dict) else None
    if isinstance(bounds, dict) and ("start" in bounds or "end" in bounds):
        yield from extract_time_ranges(bounds)


def extract_targets(value: Any) -> Iterator[ReferenceTarget]:
    """What a Reference points to; references into the resource itself (`#…`) and mere identifiers point nowhere."""
    reference = value.get("reference") if isinstance(value, dict) else None
    found = parse_reference(reference) if isinstance(reference, str) else None
    if found is not None:
        yield found


def extract_strings(value: Any) -> Iterator[tuple[str, str]]:
    """The parts of a string, HumanName or Address, each as it compares and as it is written."""
    if isinstance(value, str):
        yield normalise_text(value), value
    elif isinstance(value, dict):
        for name in _NAME_OR_ADDRESS:
            part = value.get(name)
            for each in part if isinstance(part, list) else (part,):
                if isinstance(each, str):
                    yield normalise_text(each), each


def extract_amounts(value: Any) -> Iterator[Amount]:
    """The range of a Quantity or number."""
    if isinstance(value, dict):
        number, unit = (
            value.get("value"),
            CodedTerm(_text(value, "system"), _text(value, "code"), _text(value, "unit")),
        )
        comparator = value.get("comparator")
    else:
        number, unit, comparator = value, CodedTerm(None, None, None), None
    if isinstance(number, bool) or not isinstance(number, int | float):
        return
    try:
        exact = float(number)
    except OverflowError:
        return
    low = (
        -math.inf if comparator in ("<", "<=") else exact
    )  # A set would fail for a list, which is no comparator.
    high = math.inf if comparator in (">", ">=") else exact
    yield Amount(low, high, unit)
