"""Parse the parameters that shape a result: `_count`, `_sort`, `_include`, `_format` and so on.

Sources: hl7.org/fhir/R4/search.html#return, http.html#mime-type.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from archqa.fhir.record import FhirError
from archqa.fhir.search.query import (
    Ignored,
    Include,
    Query,
    SortKey,
    Subset,
    UnsupportedFeature,
    UnsupportedParameter,
)
from archqa.fhir.values.names import names_in
from archqa.fhir.values.resource_types import (
    R4_RESOURCE_TYPES,
    did_you_mean,
    elements_of_any_type,
    resource_elements,
)
from archqa.fhir.values.search_parameters import Kind, Parameter, parameters
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import split_unescaped

RESULT_PARAMETERS = names_in("result parameters")

NAME_LISTS = frozenset({"_sort", "_elements"})
"""Control parameters whose value is a list of names, which may be empty."""

SINGLE = frozenset({"_count", "_offset", "_summary", "_total"})
"""Control parameters of which the last counts, if there are several."""

FHIR_JSON = "application/fhir+json"
JSON_TYPES = (FHIR_JSON, "application/json", "text/json")
"""Media types that the server can send, the preferred one first."""

_JSON_FORMATS = frozenset({"json", "application/json+fhir", *JSON_TYPES})
_OTHER_FORMATS = names_in("other formats")
_FHIR_VERSIONS = {"", "4.0", "4.0.1"}

_SUMMARIES = ("count", "data", "false", "text", "true")
_TOTALS = ("accurate", "estimate", "none")


def check_control_modifier(name: str) -> None:
    """Raise `UnsupportedParameter` for a control parameter with a modifier that it does not have."""
    base, colon, modifier = name.partition(":")
    if not colon or base not in RESULT_PARAMETERS or name in RESULT_PARAMETERS:
        return
    allowed = "it takes none"
    if f"{base}:iterate" in RESULT_PARAMETERS:
        allowed = "it takes :iterate"
    raise UnsupportedParameter(
        f"{base} takes no modifier :{quotable(modifier)}; {allowed}."
    )


@dataclass
class ResultParameterParser:
    """Parse result parameters one by one.

    `parameter` returns the search parameter of a type and name, or raises.
    """

    max_count: int | None
    parameter: Callable[[str, str], Parameter]
    notices: list[str]
    ignored: Ignored

    def apply(self, query: Query, name: str, value: str) -> Query:
        """Return the search with one more of `RESULT_PARAMETERS`. Raises `FhirError`."""
        match name:
            case "_count":
                count = _parse_whole_number("_count", value)
                if self.max_count is not None and count > self.max_count:
                    self.notices.append(f"_count is at most {self.max_count}.")
                    count = self.max_count
                return replace(query, count=count)
            case "_offset":
                return replace(query, offset=_parse_whole_number("_offset", value))
            case "_sort":
                return replace(
                    query, sort=(*query.sort, *self._parse_sort(query.type, value))
                )
            case (
                "_include" | "_include:iterate" | "_revinclude" | "_revinclude:iterate"
            ):
                return self._add_include(query, name, value)
            case "_elements":
                requested = parse_elements(value, query.type)
                self.notices += requested.notices
                if requested.unknown:
                    self.ignored.tolerate("_elements", " ".join(requested.unknown))
                elements = (*query.subset.elements, *requested.names)
                return replace(query, subset=replace(query.subset, elements=elements))
            case "_summary":
                _check_choice("_summary", value, _SUMMARIES)
                return replace(query, subset=replace(query.subset, summary=value))
            case "_total":
                _check_choice("_total", value, _TOTALS)
                return replace(query, total=value)
            case "_format":
                check_format(value)
            case "_pretty" if value not in {"", "true", "false"}:
                self.ignored.tolerate("_pretty", "_pretty is true or false.")
        return query

    def _parse_sort(self, resource_type: str, value: str) -> list[SortKey]:
        keys = []
        for part in split_unescaped(value, ","):
            key = part.strip()
            name, colon, modifier = key.removeprefix("-").partition(":")
            if colon:
                problem = f"_sort takes no modifier :{quotable(modifier)}; write -{quotable(name)}"
                self.ignored.tolerate("_sort", f"{problem} for descending order.")
            if name:
                parameter = self.parameter(resource_type, name)
                if parameter.kind is Kind.COMPOSITE:
                    raise FhirError(
                        f"_sort: {name} is a composite; sort by one half of it."
                    )
                keys.append(SortKey(parameter, descending=key.startswith("-")))
        return keys

    def _add_include(self, query: Query, control: str, value: str) -> Query:
        control, _, modifier = control.partition(":")
        source, _, rest = value.strip().partition(":")
        name, _, target = rest.partition(":")
        if value.strip() != "*" and not (source and name):
            raise FhirError(
                "An include is written Type:parameter, like Observation:encounter."
            )
        if source != "*" and source not in R4_RESOURCE_TYPES:
            hint = did_you_mean(source, R4_RESOURCE_TYPES)
            problem = f"There is no resource type {quotable(source)} to include."
            raise UnsupportedFeature(f"{problem}{hint}")
        if name not in {"", "*"} and source != "*":
            parameter = self.parameter(source, name)
            if parameter.kind is not Kind.REFERENCE:
                raise FhirError(f"{source}:{name} is no reference: nothing to include.")
        elif name not in {"", "*"} and name not in _reference_names():
            problem = f"No type has a reference {quotable(name)}"
            hint = did_you_mean(name, _reference_names())
            self.ignored.tolerate(control, f"{problem}: nothing to include.{hint}")
        if target not in {"", "*"} and target not in R4_RESOURCE_TYPES:
            hint = did_you_mean(target, R4_RESOURCE_TYPES)
            problem = f"There is no resource type {quotable(target)} to include.{hint}"
            self.ignored.tolerate(control, problem)
        include = Include(
            source=source.replace("*", ""),
            parameter=name.replace("*", ""),
            target=target.replace("*", ""),
            iterate=modifier == "iterate",
        )
        if control == "_revinclude":
            return replace(query, revincludes=(*query.revincludes, include))
        if not include.iterate and include.source not in {"", query.type}:
            self.notices.append(
                f"_include={include.source}:… adds nothing to matches of type {query.type};"
                " _include:iterate follows what was included."
            )
        return replace(query, includes=(*query.includes, include))


@cache
def _reference_names() -> frozenset[str]:
    """Return the names of all parameters that are references, of whatever type."""
    names = set()
    for resource_type in R4_RESOURCE_TYPES:
        for parameter in parameters(resource_type).values():
            if parameter.kind is Kind.REFERENCE:
                names.add(parameter.name)
    return frozenset(names)


class FormatKind(StrEnum):
    """What a `_format` asks for: JSON, another format of FHIR's, or nothing that FHIR knows."""

    JSON = "json"
    OTHER = "other"
    UNKNOWN = "unknown"


def read_format(value: str) -> FormatKind:
    """Return what a `_format` asks for; without a value it asks for the default.

    An unescaped `+` arrives as a blank.
    """
    media_type, version = split_media_type(value.strip().replace(" +", "+"))
    name = media_type.replace(" ", "+")
    if name in {"", *_JSON_FORMATS}:
        return FormatKind.JSON if version in _FHIR_VERSIONS else FormatKind.OTHER
    return FormatKind.OTHER if name in _OTHER_FORMATS else FormatKind.UNKNOWN


def split_media_type(text: str) -> tuple[str, str]:
    """Return a media type in lower case, and its `fhirVersion`, empty if there is none."""
    media_type, *parameters = text.split(";")
    version = ""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "fhirversion":
            version = value.strip().strip('"')
    return media_type.strip().lower(), version


def is_our_version(version: str) -> bool:
    """Whether a `fhirVersion` is R4, or none is named."""
    return version in _FHIR_VERSIONS


def check_format(value: str) -> None:
    """Raise `FhirError` (406) for a `_format` other than JSON, `UnsupportedFeature` for no format."""
    kind = read_format(value)
    if kind is FormatKind.OTHER:
        raise FhirError("Only JSON is supported: _format=json.", 406, "not-supported")
    if kind is FormatKind.UNKNOWN:
        hint = did_you_mean(value, _JSON_FORMATS)
        raise UnsupportedFeature(
            f"_format names no format of FHIR.{hint} It is json here."
        )


def _check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        hint = did_you_mean(value, frozenset(choices))
        raise UnsupportedFeature(f"{name} is one of {', '.join(choices)}.{hint}")


def _parse_whole_number(name: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value.strip()):
        raise FhirError(f"{name} must be a whole number from 0 to 999999999.")
    return int(value)


def parse_subset(summary: str, elements: str) -> Subset:
    """Return the part that `_summary` and `_elements` ask for, of resources of any type.

    Raises `FhirError`.
    """
    requested = parse_elements(elements)
    if requested.unknown:
        raise FhirError(requested.unknown)
    try:
        _check_choice("_summary", summary, _SUMMARIES)
    except UnsupportedFeature as error:
        raise FhirError(str(error)) from None
    subset = Subset(requested.names, summary)
    check_subset(subset)
    return subset


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
    if resource_type:
        known = frozenset(resource_elements(resource_type).members)
    else:
        known = elements_of_any_type()
    names, unknown, notices = [], [], []
    for text in split_unescaped(value, ","):
        path = text.strip().removeprefix(f"{resource_type}.")
        root, dot, _ = path.partition(".")
        if root and root not in known:
            owner = resource_type or "a resource"
            problem = f"_elements: {quotable(root)} is no element of {owner}."
            unknown.append(f"{problem}{did_you_mean(root, known)}")
        elif root:
            names.append(root)
            if dot:
                notices.append(
                    f"_elements takes elements at the root: {root} is returned whole."
                )
    return RequestedElements(tuple(names), tuple(unknown), tuple(notices))


def check_subset(subset: Subset) -> None:
    """Raise `FhirError` if both `_elements` and `_summary` are asked for.

    R4 does not say which of them decides. HAPI refuses them together as well.
    """
    if subset.elements and subset.summary != "false":
        raise FhirError("_elements and _summary cannot be combined: leave one out.")
