"""Parse the parameters that shape a result: `_count`, `_sort`, `_include`, `_summary` and so on.

Source: hl7.org/fhir/R4/search.html#return.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from archqa.fhir.outcome import FhirError
from archqa.fhir.search.query import Include, Query, SortKey
from archqa.fhir.search.summaries import Subset
from archqa.fhir.search.unsupported import Ignored, UnsupportedFeature, UnsupportedParameter
from archqa.fhir.values.element_table import elements_of_any_type, resource_elements
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

_SUMMARIES = ("count", "data", "false", "text", "true")
_TOTALS = {"none", "estimate", "accurate"}
_MODIFIERS = {"_include": "iterate", "_revinclude": "iterate"}
"""The only modifier of those control parameters that have one."""

NAME_LISTS = frozenset({"_sort", "_elements"})
"""Control parameters whose value is a list of names, which may be empty."""

SINGLE = frozenset({"_count", "_offset", "_summary", "_total"})
"""Control parameters of which the last counts, if there are several."""


def check_control_modifier(name: str) -> None:
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
            return replace(query, count=0)
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
                if parameter.kind is Kind.COMPOSITE:
                    raise FhirError(f"_sort: {name} is a composite; sort by one half of it.")
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
        requested = parse_elements(value, query.type)
        self._notices += requested.notices
        if requested.unknown:
            self._ignored.tolerate("_elements", " ".join(requested.unknown))
        elements = (*query.subset.elements, *requested.names)
        return replace(query, subset=replace(query.subset, elements=elements))

    def _summary(self, query: Query, value: str) -> Query:
        _check_choice("_summary", value, _SUMMARIES)
        return replace(query, subset=replace(query.subset, summary=value))

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


def parse_summary(value: str) -> str:
    """Return the value of `_summary`. Raises `FhirError` if it is none of R4's five."""
    try:
        _check_choice("_summary", value, _SUMMARIES)
    except UnsupportedFeature as error:
        raise FhirError(str(error)) from None
    return value


class RequestedElements(NamedTuple):
    """The elements that `_elements` names, and messages about names that do not fit."""

    names: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def parse_elements(value: str, resource_type: str = "") -> RequestedElements:
    """Return the elements that a value of `_elements` names.

    Without a type, an element of any type exists. `Type.element` names the same as `element`, and
    a longer path its root, which is returned as a whole: R4 takes elements at the root only.
    """
    names, unknown, notices = [], [], []
    for text in split_unescaped(value, ","):
        path = text.strip().removeprefix(f"{resource_type}.")
        root, dot, _ = path.partition(".")
        problem = _problem_of_element(root, resource_type)
        if problem:
            unknown.append(problem)
        elif root:
            names.append(root)
            if dot:
                notices.append(f"_elements takes elements at the root: {root} is returned whole.")
    return RequestedElements(tuple(names), tuple(unknown), tuple(notices))


def _problem_of_element(name: str, resource_type: str) -> str:
    """Return why this is no element that can be asked for; empty if it is one, or no name."""
    known = elements_of_any_type()
    if resource_type:
        known = frozenset(resource_elements(resource_type).members)
    if not name or name in known:
        return ""
    hint = did_you_mean(name, known)
    owner = resource_type or "a resource"
    return f"_elements: {quotable(name)} is no element of {owner}.{hint}"


def check_subset(subset: Subset) -> None:
    """Raise `FhirError` if both `_elements` and `_summary` are asked for.

    R4 does not say which of them decides. HAPI refuses them together as well.
    """
    if subset.elements and subset.summary != "false":
        raise FhirError("_elements and _summary cannot be combined: leave one out.")
