"""Parse the parameters that shape a result: `_count`, `_sort`, `_include`, `_summary` and so on.

Source: hl7.org/fhir/R4/search.html#return.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache

from archqa.fhir.outcome import FhirError
from archqa.fhir.search.query import Include, Query, SortKey
from archqa.fhir.search.unsupported import Ignored, UnsupportedFeature, UnsupportedParameter
from archqa.fhir.values.elements import element_names, has_element
from archqa.fhir.values.formats import JSON_FORMATS, FormatKind, read_format
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.search_parameters import Kind, Parameter, parameters
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import split_unescaped

RESULT_PARAMETERS = frozenset(
    {
        "_count",
        "_offset",
        "_sort",
        "_include",
        "_include:iterate",
        "_revinclude",
        "_revinclude:iterate",
        "_elements",
        "_summary",
        "_total",
        "_format",
        "_pretty",
    }
)

_SUMMARIES = {"true", "false", "text", "data", "count"}
_TOTALS = {"none", "estimate", "accurate"}
_MODIFIERS = {"_include": "iterate", "_revinclude": "iterate"}
"""The only modifier of those control parameters that have one."""

SINGLE = frozenset({"_count", "_offset", "_summary", "_total"})
"""Control parameters of which the last counts, if there are several."""


def check_modifier(name: str) -> None:
    """Raise `UnsupportedParameter` for a control parameter with a modifier that it does not have."""
    base, colon, modifier = name.partition(":")
    if not colon or base not in RESULT_PARAMETERS or name in RESULT_PARAMETERS:
        return
    known = _MODIFIERS.get(base)
    allowed = f"it takes :{known}" if known else "it takes none"
    raise UnsupportedParameter(f"{base} takes no modifier :{quotable(modifier)}; {allowed}.")


class ResultParameterParser:
    """Parse result parameters one by one.

    `parameter` returns the search parameter of a type and name, or raises.
    """

    def __init__(
        self,
        max_count: int | None,
        parameter: Callable[[str, str], Parameter],
        notices: list[str],
        ignored: Ignored,
    ) -> None:
        self._max_count = max_count
        self._parameter = parameter
        self._notices = notices
        self._ignored = ignored

    def apply(self, query: Query, name: str, value: str) -> Query:
        """Return the search with one more of `RESULT_PARAMETERS`. Raises `FhirError`."""
        apply: Callable[[Query, str], Query] = getattr(self, name.replace(":", "_"))
        return apply(query, value)

    def _count(self, query: Query, value: str) -> Query:
        count = parse_whole_number("_count", value)
        if count == 0:
            return replace(query, count=0, summary="count")
        if self._max_count is not None and count > self._max_count:
            self._notices.append(f"_count is at most {self._max_count}.")
            count = self._max_count
        return replace(query, count=count)

    def _offset(self, query: Query, value: str) -> Query:
        return replace(query, offset=parse_whole_number("_offset", value))

    def _sort(self, query: Query, value: str) -> Query:
        keys = list(query.sort)
        for part in split_unescaped(value, ","):
            key = part.strip()
            name, colon, modifier = key.removeprefix("-").partition(":")
            if colon:
                problem = f"_sort takes no modifier :{quotable(modifier)}; write -{quotable(name)}"
                self._ignored.tolerate("_sort", f"{problem} for descending order.")
            if name:
                parameter = self._parameter(query.type, name)
                keys.append(SortKey(parameter, descending=key.startswith("-")))
        return replace(query, sort=tuple(keys))

    def _include(self, query: Query, value: str) -> Query:
        include = self._parse_include(value, "_include", iterate=False)
        if include.source not in {"", query.type}:
            self._notices.append(
                f"_include={include.source}:… adds nothing to matches of type {query.type};"
                " _include:iterate follows what was included."
            )
        return _add_include(query, include)

    def _include_iterate(self, query: Query, value: str) -> Query:
        return _add_include(query, self._parse_include(value, "_include", iterate=True))

    def _revinclude(self, query: Query, value: str) -> Query:
        return _add_revinclude(query, self._parse_include(value, "_revinclude", iterate=False))

    def _revinclude_iterate(self, query: Query, value: str) -> Query:
        return _add_revinclude(query, self._parse_include(value, "_revinclude", iterate=True))

    def _parse_include(self, value: str, control: str, *, iterate: bool) -> Include:
        source, _, rest = value.strip().partition(":")
        name, _, target = rest.partition(":")
        if value.strip() != "*" and not (source and name):
            raise FhirError("An include is written Type:parameter, like Observation:encounter.")
        if source != "*":
            _check_included_type(source)
        self._check_included_reference(source, name, control)
        if target not in {"", "*"} and target not in R4_RESOURCE_TYPES:
            hint = did_you_mean(target, R4_RESOURCE_TYPES)
            problem = f"There is no resource type {quotable(target)} to include.{hint}"
            self._ignored.tolerate(control, problem)
        return Include(
            source.replace("*", ""),
            name.replace("*", ""),
            target.replace("*", ""),
            iterate,
        )

    def _check_included_reference(self, source: str, name: str, control: str) -> None:
        if name in {"", "*"}:
            return
        if source == "*":
            if name not in _reference_names():
                problem = f"No type has a reference {quotable(name)}"
                hint = did_you_mean(name, _reference_names())
                self._ignored.tolerate(control, f"{problem}: nothing to include.{hint}")
            return
        parameter = self._parameter(source, name)
        if parameter.kind is not Kind.REFERENCE:
            raise FhirError(f"{source}:{name} is no reference: nothing to include.")

    def _elements(self, query: Query, value: str) -> Query:
        elements = list(query.elements)
        for part in split_unescaped(value, ","):
            path = part.strip().removeprefix(f"{query.type}.")
            name = path.partition(".")[0]
            if name:
                elements.append(name)
                self._check_element(query.type, name)
        return replace(query, elements=tuple(elements))

    def _check_element(self, resource_type: str, name: str) -> None:
        if not has_element(resource_type, name):
            hint = did_you_mean(name, element_names(resource_type))
            problem = f"_elements: {resource_type} has no element {quotable(name)}.{hint}"
            self._ignored.tolerate("_elements", problem)

    def _summary(self, query: Query, value: str) -> Query:
        _check_choice("_summary", value, _SUMMARIES)
        return replace(query, summary=value)

    def _total(self, query: Query, value: str) -> Query:
        _check_choice("_total", value, _TOTALS)
        return replace(query, total=value)

    def _format(self, query: Query, value: str) -> Query:
        check_format(value)
        return query

    def _pretty(self, query: Query, value: str) -> Query:
        if value not in {"", "true", "false"}:
            self._ignored.tolerate("_pretty", "_pretty is true or false.")
        return query


def check_format(value: str) -> None:
    """Raise `FhirError` (406) for a `_format` other than JSON, `UnsupportedFeature` for no format."""
    kind = read_format(value)
    if kind is FormatKind.OTHER:
        raise FhirError("Only JSON is supported: _format=json.", 406, "not-supported")
    if kind is FormatKind.UNKNOWN:
        raise unknown_format(value)


def unknown_format(value: str) -> UnsupportedFeature:
    """Return the error for a `_format` that FHIR does not know."""
    hint = did_you_mean(value, JSON_FORMATS)
    return UnsupportedFeature(f"_format names no format of FHIR.{hint} It is json here.")


def _check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        hint = did_you_mean(value, frozenset(choices))
        raise UnsupportedFeature(f"{name} is one of {', '.join(sorted(choices))}.{hint}")


def _check_included_type(source: str) -> None:
    if source not in R4_RESOURCE_TYPES:
        hint = did_you_mean(source, R4_RESOURCE_TYPES)
        problem = f"There is no resource type {quotable(source)} to include."
        raise UnsupportedFeature(f"{problem}{hint}")


@cache
def _reference_names() -> frozenset[str]:
    """Return the names of all parameters that are references, of whatever type."""
    names = set()
    for resource_type in R4_RESOURCE_TYPES:
        for parameter in parameters(resource_type).values():
            if parameter.kind is Kind.REFERENCE:
                names.add(parameter.name)
    return frozenset(names)


def _add_include(query: Query, include: Include) -> Query:
    return replace(query, includes=(*query.includes, include))


def _add_revinclude(query: Query, include: Include) -> Query:
    return replace(query, revincludes=(*query.revincludes, include))


def parse_whole_number(name: str, value: str) -> int:
    """Return the value of a parameter. Raises `FhirError` unless it has one to nine digits."""
    if not re.fullmatch(r"[0-9]{1,9}", value.strip()):
        raise FhirError(f"{name} must be a whole number from 0 to 999999999.")
    return int(value)
