"""What the cited resources, read again from the record, confirm of a row."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

from archqa.core.id_lists import list_ids
from archqa.fhir import Record, Resource
from archqa.fhir.values.references import parse_reference
from archqa.query.execution.elements import objects_at
from archqa.query.execution.observations import read_value
from archqa.query.execution.rows import Row
from archqa.query.kinds import LISTS
from archqa.query.values import Value, read_pressure
from archqa.query.wording.words import clock_text, date_text

_ERROR = "entered-in-error"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_WORD = re.compile(r"[^\W_]+")
_TYPES_BETWEEN = frozenset({"Encounter", "CareTeam", "PractitionerRole"})
"""Types whose own references name the people and places of a row."""

ReadResource = Callable[[str, str], Resource | None]
"""Reads a resource by its type and id."""


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
        is_recorded = cited.contain(row.text) or row.text in cited.result_texts
        if row.text and row.value is None and not is_recorded:
            return "the result is not in it"
        for field in LISTS["quoted_facts"]:
            if not all(map(cited.contain, row.fact(field))):
                return "what is told beside it is not in it"
        return ""

    def recorded_value(self, row: Row) -> str:
        """Return the value that the record has, `170 lb`, where the row's was converted."""
        recorded = ", ".join(row.fact("recorded_value"))
        if recorded or row.unit != "°C" or row.value is None:
            return recorded
        for text in self._cited_texts(row).own:
            if _NUMBER.fullmatch(text):
                # As the executor converts degrees Fahrenheit, to two decimals.
                celsius = round((float(text) - 32) * 5 / 9, 2)
                if celsius == row.value:
                    return f"{float(text):g} °F"
        return ""

    def date(self, row: Row, time: datetime | None, *, with_clock: bool = False) -> str:
        """Return the date of a row, as precise as the record; empty without one."""
        if time is None:
            return ""
        day = date_text(time)
        if time.day == 1:  # The record may have the month or the year alone.
            recorded = self._cited_texts(row).own
            if not any(text.startswith(day) for text in recorded):
                for part in (day[:7], day[:4]):
                    if part in recorded:
                        return part
        return clock_text(time) if with_clock else day

    def referred(self, resources: list[Resource]) -> Iterator[Resource]:
        """Yield what the resources refer to, as far as the record has it."""
        for resource in resources:
            for reference in _references(resource):
                target = parse_reference(reference)
                if target is None:
                    continue
                for kind in (
                    (target.type,) if target.type else LISTS["types_referred_to"]
                ):
                    referred = self.read(kind, target.id)
                    if referred is not None:
                        yield referred
                        break

    def _cited_texts(self, row: Row) -> "_CitedTexts":
        key = (*row.refs, "", *row.context_refs, "", *row.reason_refs)
        if key not in self._cited:
            self._cited[key] = _CitedTexts(self, row)
        return self._cited[key]


class _CitedTexts:
    """The texts of the resources that a row cites, and of those that they refer to."""

    def __init__(self, support: Support, row: Row) -> None:
        self._support = support
        self._row = row

    @cached_property
    def _resources(self) -> list[Resource]:
        row = self._row
        resources = []
        for reference in dict.fromkeys(
            (*row.refs, *row.context_refs, *row.reason_refs)
        ):
            resource = self._support.read(*reference.split("/", 1))
            if resource is not None:
                resources.append(resource)
        return resources

    @cached_property
    def of_the_row(self) -> frozenset[str]:
        """The texts of the resource that holds the row itself."""
        return _texts(self._resources[:1])

    @cached_property
    def result_texts(self) -> frozenset[str]:
        """The results as texts: a range or a boolean is no text of the resource."""
        return frozenset(value.text for value in _result_values(self._resources))

    @cached_property
    def own(self) -> frozenset[str]:
        """The texts of all cited resources."""
        return _texts(self._resources)

    @cached_property
    def _words(self) -> frozenset[str]:
        return _words_of(self.own)

    @cached_property
    def _all_words(self) -> frozenset[str]:
        referred = list(self._support.referred(self._resources))
        between = []
        for resource in referred:
            if resource.get("resourceType") in _TYPES_BETWEEN:
                between.append(resource)
        referred += self._support.referred(between)
        return self._words | _words_of(_texts(referred))

    def contain(self, text: str) -> bool:
        """Whether all words of a text stand in the resources, or in what they refer to."""
        words = _words_of({text})
        return words <= self._words or words <= self._all_words


def _as_recorded(row: Row, cited: _CitedTexts) -> Row:
    """The row with the number of the record in place of the one it was converted to."""
    for recorded in row.fact("recorded_value"):
        number = next(iter(_NUMBER.findall(recorded)), "")
        for text in cited.own if number else ():
            if _NUMBER.fullmatch(text) and f"{float(text):g}" == f"{float(number):g}":
                return replace(row, value=float(text))
    return row


def _texts(resources: list[Resource]) -> frozenset[str]:
    return frozenset(
        str(scalar) for resource in resources for scalar in all_scalars(resource)
    )


def _words_of(texts: Iterable[str]) -> frozenset[str]:
    words: set[str] = set()
    for text in texts:
        words.update(_WORD.findall(text.casefold()))
    return frozenset(words)


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


def unconfirmed(row: Row, read: ReadResource) -> str:
    """What of a row its resources, read again, do not contain; empty if they contain everything."""
    resources: list[Resource] = []
    not_found: list[str] = []
    for ref in dict.fromkeys((*row.refs, *row.context_refs)):
        resource_type, resource_id = ref.split("/", 1)
        resource = read(resource_type, resource_id)
        if resource is None:
            not_found.append(ref)
        else:
            resources.append(resource)
    if not_found:
        return f"{list_ids(not_found)} not in the record"
    scalars = list(all_scalars(resources))
    texts = {str(scalar).strip() for scalar in scalars}
    missing = []
    # Of the class of a visit the resource may have the code alone.
    names = set(row.names).difference(row.fact("class"), [""])
    if names and texts.isdisjoint(map(str.strip, names)):
        missing.append("the name")
    if row.value is not None and not _contains_value(row, resources, scalars, texts):
        missing.append("the value")
    folded_texts = set(map(str.casefold, texts))
    for name in LISTS["facts_written_out"]:
        facts = row.fact(name)
        if any(fact.casefold().strip() not in folded_texts for fact in facts):
            missing.append("what is told beside it")
            break
    times = [time for time in (row.time, row.end) if time is not None]
    if not all(_is_recorded(time, texts) for time in times):
        missing.append("the time")
    if not missing:
        return ""
    sources = "it" if len(resources) == 1 else "them"
    return f"{' and '.join(missing)} is not in {sources}"


def _result_values(resources: list[Resource]) -> Iterator[Value]:
    """Yield the values of Observations and of their components, numbers in texts included."""
    for resource in resources:
        for result in (resource, *objects_at(resource, "component")):
            value = read_value(result)
            yield value
            yield from read_pressure(value.text) or ()


def _contains_value(
    row: Row, resources: list[Resource], scalars: list[Any], texts: set[str]
) -> bool:
    if row.unit == "°C" and any("F" in text for text in texts):
        return True  # The value was converted from degrees Fahrenheit.
    numbers = []
    for scalar in scalars:
        if isinstance(scalar, int | float) and not isinstance(scalar, bool):
            numbers.append(scalar)
    for value in _result_values(resources):
        if value.number is not None:
            numbers.append(value.number)
    recorded = row.fact("recorded_value")
    if recorded:  # The value was converted to another unit.
        return recorded[0].partition(" ")[0] in [f"{number:g}" for number in numbers]
    return row.value in numbers


def _is_recorded(moment: datetime, texts: set[str]) -> bool:
    """Whether a time stands among the texts, without zone and seconds.

    Midnight is a bare date, which stands for it, as the first day of a month or year does.
    """
    time = moment.isoformat()[:16].replace("T00:00", "")
    if any(text[:16].replace("T00:00", "") == time for text in texts):
        return True
    if time.endswith("-01-01") and time[:4] in texts:
        return True
    return time.endswith("-01") and time[:7] in texts


def all_scalars(element: Any) -> Iterator[Any]:
    """All scalars of a resource, at any depth."""
    if isinstance(element, dict):
        for child in element.values():
            yield from all_scalars(child)
    elif isinstance(element, list):
        for child in element:
            yield from all_scalars(child)
    else:
        yield element
