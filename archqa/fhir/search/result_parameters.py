"""Reads the parameters that shape a result: `_count`, `_sort`, `_include`, `_elements`, `_summary`, `_total` and so on.

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
_WORD = re.compile(r"[\w:.-]{1,60}", re.ASCII)


def quotable(word: str) -> str:
    """A word of the request, if it is short and plain: what is told must not carry a payload."""
    return word if _WORD.fullmatch(word) else "of that name"


class ResultParameterParser:
    """Reads them one by one; `parameter` gives a type's search parameter of a name, or raises."""

    def __init__(
        self, max_count: int | None, parameter: Callable[[str, str], Parameter], notices: list[str]
    ) -> None:
        self._max_count = max_count
        self._parameter = parameter
        self._notices = notices

    def take(self, query: Query, name: str, value: str) -> Query:
        """The search with one more of `RESULT_PARAMETERS`. Raises `FhirError`."""
        take: Callable[[Query, str], Query] = getattr(self, name.replace(":", "_"))
        return take(query, value)

    def _count(self, query: Query, value: str) -> Query:
        number = _whole("_count", value)
        if number == 0:
            return replace(query, count=0, summary="count")
        if self._max_count is not None and number > self._max_count:
            self._notices.append(f"_count is at most {self._max_count}.")
            number = self._max_count
        return replace(query, count=number)

    def _offset(self, query: Query, value: str) -> Query:
        return replace(query, offset=_whole("_offset", value))

    def _sort(self, query: Query, value: str) -> Query:
        keys = list(query.sort)
        for word in split_unescaped(value, ","):
            name = word.strip().removeprefix("-").partition(":")[0]
            if name:
                keys.append(
                    SortKey(self._parameter(query.type, name), word.strip().startswith("-"))
                )
        return replace(query, sort=tuple(keys))

    def _include(self, query: Query, value: str) -> Query:
        return replace(query, includes=(*query.includes, self._read(value, iterate=False)))

    def _include_iterate(self, query: Query, value: str) -> Query:
        return replace(query, includes=(*query.includes, self._read(value, iterate=True)))

    def _revinclude(self, query: Query, value: str) -> Query:
        return replace(query, revincludes=(*query.revincludes, self._read(value, iterate=False)))

    def _revinclude_iterate(self, query: Query, value: str) -> Query:
        return replace(query, revincludes=(*query.revincludes, self._read(value, iterate=True)))

    def _read(self, value: str, *, iterate: bool) -> Include:
        source, _, rest = value.strip().partition(":")
        name, _, target = rest.partition(":")
        if value.strip() != "*" and not (source and name):
            raise FhirError("An include is written Type:parameter, like Observation:encounter.")
        if source not in R4_RESOURCE_TYPES and source != "*":
            raise FhirError(
                f"There is no resource type {quotable(source)} to include.{did_you_mean(source, R4_RESOURCE_TYPES)}"
            )
        known = self._parameter(source, name) if "*" not in {source, name} else None
        if known is not None and known.kind is not Kind.REFERENCE:
            raise FhirError(f"{source}:{name} is no reference: nothing to include.")
        return Include(source.replace("*", ""), name.replace("*", ""), target, iterate)

    def _elements(self, query: Query, value: str) -> Query:
        names = [
            each.strip().removeprefix(f"{query.type}.").partition(".")[0]
            for each in split_unescaped(value, ",")
        ]
        return replace(query, elements=(*query.elements, *(name for name in names if name)))

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
            raise FhirError("Only JSON is spoken here: _format=json.", 406, "not-supported")
        return query

    def _pretty(self, query: Query, value: str) -> Query:
        return query


def _whole(name: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value.strip()):
        raise FhirError(f"{name} must be a whole number from 0 to 999999999.")
    return int(value)
