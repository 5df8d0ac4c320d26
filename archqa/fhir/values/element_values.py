"""Values of elements: follow a path to them, and extract what a search finds of them.

A path is `subject`, `name.family`, `telecom(system=phone)` or one of two computed elements;
`extension(http://…/us-core-race).extension.valueCoding` goes through the extension of that URL. It
is a small part of FHIRPath, compiled to functions because loading visits millions of elements.

Which datatype gives coded terms, time ranges, targets, strings or amounts:
hl7.org/fhir/R4/search.html, tables under "token", "date", "string", "quantity". A value of an
unknown shape gives nothing: a record is loaded as it is and found by what is understood.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from archqa.fhir.record import member_of
from archqa.fhir.values.dates import TimeRange, parse_time_range, period_range
from archqa.fhir.values.names import names_in
from archqa.fhir.values.text import normalise_text

PathGetter = Callable[[dict[str, Any]], Sequence[Any]]

_STEP = re.compile(r"(?:[^.(]|\([^()]*\))+")
_FILTERED_STEP = re.compile(r"(\w+)\((?:(\w+)=)?([^()]+)\)")
_NO_VALUES: tuple[Any, ...] = ()

_NAME_AND_ADDRESS_PARTS = names_in("parts of names")


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
    if isinstance(value, bool):
        yield CodedTerm(None, "true" if value else "false", None)
    elif isinstance(value, str):
        yield CodedTerm(None, value, None)
    if not isinstance(value, dict):
        return
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
    else:  # A Timing.
        events, repeat = value.get("event"), value.get("repeat")
        for event in events if isinstance(events, list) else ():
            if isinstance(event, str):
                yield from extract_time_ranges(event)
        bounds = member_of(repeat, "boundsPeriod")
        if isinstance(bounds, dict) and ("start" in bounds or "end" in bounds):
            yield from extract_time_ranges(bounds)
        return
    if time_range is not None:
        yield time_range


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
        if (
            "low" in value or "high" in value
        ):  # A Range: open on a side without a number.
            sides = [
                side
                for side in (value.get("low"), value.get("high"))
                if isinstance(side, dict)
            ]
            low, high = _side(value.get("low")), _side(value.get("high"))
            if low is not None or high is not None:
                yield Amount(
                    low=-math.inf if low is None else low,
                    high=math.inf if high is None else high,
                    unit=_unit(sides[0]),
                )
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


def _side(quantity: Any) -> float | None:
    return _number(member_of(quantity, "value"))


@cache
def compile_path(path: str) -> PathGetter:
    """Return a function from a resource to the values at the path.

    The function flattens lists and leaves out null.
    """
    if path in _COMPUTED:
        return _COMPUTED[path]
    names = _STEP.findall(path)
    steps = list(map(_compile_step, names))
    if len(steps) == 1:
        return steps[0]
    follow = _chain(steps)
    if len(steps) > 2 or "(" in path:
        return follow
    first, second = names

    def follow_two(resource: dict[str, Any]) -> Sequence[Any]:
        """Be fast where the first member is no list, such as in `meta.profile`."""
        node = resource.get(first)
        if type(node) is dict:
            return _values(node.get(second))
        return follow(resource)

    return follow_two


def root_element(path: str) -> str | None:
    """Return the member at which the path starts; None for computed elements."""
    if path in _COMPUTED:
        return None
    return re.split(r"\W", path, maxsplit=1)[0]


def _compile_step(step: str) -> PathGetter:
    filtered = _FILTERED_STEP.fullmatch(step)
    if filtered is None:
        return lambda node: _values(node.get(step))
    name, key, required = filtered.groups(default="url")

    def matching_values(node: dict[str, Any]) -> Sequence[Any]:
        matching = []
        for value in _values(node.get(name)):
            if isinstance(value, dict) and value.get(key) == required:
                matching.append(value)
        return matching

    return matching_values


def _chain(steps: list[PathGetter]) -> PathGetter:
    def follow(resource: dict[str, Any]) -> Sequence[Any]:
        nodes: Sequence[Any] = (resource,)
        for step in steps:
            values: list[Any] = []
            for node in nodes:
                if isinstance(node, dict):
                    values += step(node)
            nodes = values
        return nodes

    return follow


def _values(value: Any) -> Sequence[Any]:
    if value is None:
        return _NO_VALUES
    if isinstance(value, list):
        return [item for item in value if item is not None]
    return (value,)


def _deceased(patient: dict[str, Any]) -> Sequence[Any]:
    """True or false for every patient: parameter `deceased` of hl7.org/fhir/R4/patient.html."""
    has_date = "deceasedDateTime" in patient
    is_deceased = has_date or patient.get("deceasedBoolean") is True
    return (is_deceased,)


def _legal_sex(patient: dict[str, Any]) -> Sequence[Any]:
    """The legal-sex extension, else the gender (as in Epic's API, MedAgentBench `funcs_v1`)."""
    for extension in _values(patient.get("extension")):
        if not isinstance(extension, dict):
            continue
        url = str(extension.get("url", ""))
        if url.endswith("legal-sex"):
            values = [
                value for name, value in extension.items() if name.startswith("value")
            ]
            return _values(values)
    return _values(patient.get("gender"))


_COMPUTED: dict[str, PathGetter] = {"deceased()": _deceased, "legal-sex()": _legal_sex}
