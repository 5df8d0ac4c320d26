"""What the cited resources, read again from the record, confirm of a row."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

from archqa.asking.record_numbers import clock_text, date_text
from archqa.fhir import Record, Resource
from archqa.fhir.values.references import parse_reference
from archqa.query.execution.rows import Row
from archqa.query.wording.answers import all_scalars, unconfirmed

_ERROR = "entered-in-error"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_WORD = re.compile(r"[^\W_]+")
_FULL_DATE = len("2026-04-28")
_QUOTED_FACTS = frozenset(
    {"reason", "practitioner", "place", "reaction", "activity", "target", "body_site", "payer"}
    | {"address", "phone", "email", "care_unit"}
)
"""Facts whose words stand in the resource, or in one that it refers to; others come from codes."""

_TYPES_BETWEEN = frozenset({"Encounter", "CareTeam", "PractitionerRole"})
"""Types whose own references name the people and places of a row."""

_REFERRED_TYPES = (
    "Practitioner",
    "PractitionerRole",
    "Organization",
    "Location",
    "Condition",
    "Encounter",
    "Observation",
    "Procedure",
    "Goal",
    "CareTeam",
    "RelatedPerson",
    "Patient",
)
"""Types that a reference without a type may mean."""


class Support:
    """The resources that rows cite, each read once."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._resources: dict[tuple[str, str], Resource | None] = {}
        self._cited: dict[tuple[str, ...], _CitedTexts] = {}

    def read(self, resource_type: str, resource_id: str) -> Resource | None:
        """Return a resource, or None if there is none. Raises as the record does."""
        key = (resource_type, resource_id)
        if key not in self._resources:
            self._resources[key] = self._record.get(resource_type, resource_id)
        return self._resources[key]

    def problem(self, row: Row) -> str:
        """Return what the cited resources do not confirm of a row; empty if they confirm all."""
        cited = self._cited_texts(row)
        problem = unconfirmed(_as_recorded(row, cited), self.read)
        if problem:
            return problem
        if _ERROR in cited.of_the_row:
            return "it was entered in error"
        if row.text and row.value is None and not cited.hold(row.text):
            return "the result is not in it"
        missing = [fact for fact in _quoted(row) if not cited.hold(fact)]
        if missing:
            return "what is told beside it is not in it"
        return ""

    def recorded_value(self, row: Row) -> str:
        """Return the value that the record has, `170 lb`, where the row's was converted."""
        recorded = ", ".join(row.facts.get("recorded_value", ()))
        if recorded or row.unit != "°C" or row.value is None:
            return recorded
        for text in self._cited_texts(row).own:
            if _NUMBER.fullmatch(text) and _celsius(float(text)) == row.value:
                return f"{float(text):g} °F"
        return ""

    def date(self, row: Row, time: datetime | None, *, with_clock: bool = False) -> str:
        """Return the date of a row, as precise as the record; empty without one."""
        if time is None:
            return ""
        day = date_text(time)
        if day.endswith("-01"):
            day = self._recorded_part(row, day)
        return clock_text(time) if with_clock and len(day) == _FULL_DATE else day

    def _recorded_part(self, row: Row, day: str) -> str:
        """The leading part of a date that stands in the record; the first of a month may be made up."""
        recorded = self._cited_texts(row).own
        if any(text.startswith(day) for text in recorded):
            return day
        return next((day[:digits] for digits in (7, 4) if day[:digits] in recorded), day)

    def referred(self, resources: list[Resource]) -> Iterator[Resource]:
        """Yield what the resources refer to, as far as the record has it."""
        for resource in resources:
            for reference in _references(resource):
                yield from self._targets(reference)

    def _cited_texts(self, row: Row) -> "_CitedTexts":
        key = (*row.refs, "", *row.context_refs, "", *row.reason_refs)
        if key not in self._cited:
            self._cited[key] = _CitedTexts(self, row)
        return self._cited[key]

    def _targets(self, reference: str) -> Iterator[Resource]:
        target = parse_reference(reference)
        if target is None:
            return
        types = (target.type,) if target.type else _REFERRED_TYPES
        for resource_type in types:
            resource = self.read(resource_type, target.id)
            if resource is not None:
                yield resource
                return


class _CitedTexts:
    """The texts of the resources that a row cites, and of those that they refer to."""

    def __init__(self, support: Support, row: Row) -> None:
        self._support = support
        self._row = row

    @cached_property
    def _resources(self) -> list[Resource]:
        row = self._row
        refs = dict.fromkeys((*row.refs, *row.context_refs, *row.reason_refs))
        resources = [self._support.read(*ref.split("/", 1)) for ref in refs]
        return [resource for resource in resources if resource is not None]

    @cached_property
    def of_the_row(self) -> frozenset[str]:
        """The texts of the resource that holds the row itself."""
        return frozenset(_texts(self._resources[:1]))

    @cached_property
    def own(self) -> frozenset[str]:
        """The texts of all cited resources."""
        return frozenset(_texts(self._resources))

    @cached_property
    def _words(self) -> frozenset[str]:
        return _words_of(self.own)

    @cached_property
    def _all_words(self) -> frozenset[str]:
        referred = list(self._support.referred(self._resources))
        between = [each for each in referred if each.get("resourceType") in _TYPES_BETWEEN]
        referred += self._support.referred(between)
        return self._words | _words_of(frozenset(_texts(referred)))

    def hold(self, text: str) -> bool:
        """Whether all words of a text stand in the resources, or in what they refer to."""
        words = _words_of(frozenset({text}))
        return words <= self._words or words <= self._all_words


def _celsius(fahrenheit: float) -> float:
    """Degrees Celsius as the executor converts them, to two decimals."""
    return round((fahrenheit - 32) * 5 / 9, 2)


def _as_recorded(row: Row, cited: _CitedTexts) -> Row:
    """The row with the number of the record in place of the one it was converted to."""
    for recorded in row.facts.get("recorded_value", ()):
        number = next(iter(_NUMBER.findall(recorded)), "")
        for text in cited.own if number else ():
            if _NUMBER.fullmatch(text) and f"{float(text):g}" == f"{float(number):g}":
                return replace(row, value=float(text))
    return row


def _quoted(row: Row) -> Iterator[str]:
    for field in _QUOTED_FACTS.intersection(row.facts):
        yield from row.facts[field]


def _texts(resources: list[Resource]) -> Iterator[str]:
    for resource in resources:
        for scalar in all_scalars(resource):
            yield str(scalar)


def _words_of(texts: frozenset[str]) -> frozenset[str]:
    return frozenset(word.casefold() for text in texts for word in _WORD.findall(text))


def _references(element: Any) -> Iterator[str]:
    if isinstance(element, dict):
        reference = element.get("reference")
        if isinstance(reference, str):
            yield reference
        for child in element.values():
            yield from _references(child)
    elif isinstance(element, list):
        for child in element:
            yield from _references(child)
