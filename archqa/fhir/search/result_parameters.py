"""Parse the parameters that shape a result: `_count`, `_sort`, `_include`, `_summary` and so on.

Source: hl7.org/fhir/R4/search.html#return.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from archqa.fhir.outcome import FhirError
from archqa.fhir.search.query import Include, Query, SortKey
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.search_parameters import Kind, Parameter
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
_QUOTABLE = re.compile(r"[\w:.-]{1,60}", re.ASCII)


def quotable(name: str) -> str:
    """Return a name of the request if it is short and plain: a message must not carry a payload."""
    return name if _QUOTABLE.fullmatch(name) else "of that name"


class ResultParameterParser:
    """Parse result parameters one by one.

    `parameter` returns the search parameter of a type and name, or raises.
    """

    def __init__(
        self, max_count: int | None, parameter: Callable[[str, str], Parameter], notices: list[str]
    ) -> None:
        self._max_count = max_count
        self._parameter = parameter
        self._notices = notices

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
            name = key.removeprefix("-").partition(":")[0]
            if name:
                parameter = self._parameter(query.type, name)
                if parameter.kind is Kind.COMPOSITE:
                    raise FhirError(f"_sort: {name} is a composite; sort by one half of it.")
                keys.append(SortKey(parameter, descending=key.startswith("-")))
        return replace(query, sort=tuple(keys))

    def _include(self, query: Query, value: str) -> Query:
        return _add_include(query, self._parse_include(value, iterate=False))

    def _include_iterate(self, query: Query, value: str) -> Query:
        return _add_include(query, self._parse_include(value, iterate=True))

    def _revinclude(self, query: Query, value: str) -> Query:
        return _add_revinclude(query, self._parse_include(value, iterate=False))

    def _revinclude_iterate(self, query: Query, value: str) -> Query:
        return _add_revinclude(query, self._parse_include(value, iterate=True))

    def _parse_include(self, value: str, *, iterate: bool) -> Include:
        source, _, rest = value.strip().partition(":")
        name, _, target = rest.partition(":")
        if value.strip() != "*" and not (source and name):
            raise FhirError("An include is written Type:parameter, like Observation:encounter.")
        if source not in R4_RESOURCE_TYPES and source != "*":
            hint = did_you_mean(source, R4_RESOURCE_TYPES)
            raise FhirError(f"There is no resource type {quotable(source)} to include.{hint}")
        if "*" not in {source, name}:
            parameter = self._parameter(source, name)
            if parameter.kind is not Kind.REFERENCE:
                raise FhirError(f"{source}:{name} is no reference: nothing to include.")
        return Include(
            source.replace("*", ""),
            name.replace("*", ""),
            target,
            iterate,
        )

    def _elements(self, query: Query, value: str) -> Query:
        elements = list(query.elements)
        for part in split_unescaped(value, ","):
            path = part.strip().removeprefix(f"{query.type}.")
            name = path.partition(".")[0]
            if name:
                elements.append(name)
        return replace(query, elements=tuple(elements))

    def _summary(self, query: Query, value: str) -> Query:
        if value not in _SUMMARIES:
            raise FhirError(f"_summary is one of {', '.join(sorted(_SUMMARIES))}.")
        return replace(query, summary=value)

    def _total(self, query: Query, value: str) -> Query:
        if value not in _TOTALS:
            raise FhirError(f"_total is one of {', '.join(sorted(_TOTALS))}.")
        return replace(query, total=value)

    def _format(self, query: Query, value: str) -> Query:
        if value.strip() and "json" not in value.lower():
            message = "Only JSON is supported: _format=json."
            raise FhirError(message, 406, "not-supported")
        return query

    def _pretty(self, query: Query, value: str) -> Query:
        return query


def _add_include(query: Query, include: Include) -> Query:
    return replace(query, includes=(*query.includes, include))


def _add_revinclude(query: Query, include: Include) -> Query:
    return replace(query, revincludes=(*query.revincludes, include))


def parse_whole_number(name: str, value: str) -> int:
    """Return the value of a parameter. Raises `FhirError` unless it has one to nine digits."""
    if not re.fullmatch(r"[0-9]{1,9}", value.strip()):
        raise FhirError(f"{name} must be a whole number from 0 to 999999999.")
    return int(value)
