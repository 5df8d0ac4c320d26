"""Rows of a kind as its declaration says: names, times, values and facts at declared paths."""

from typing import Any

from archqa.fhir import Resource
from archqa.query.execution.chart import Chart
from archqa.query.execution.context import ExecutionContext
from archqa.query.execution.element_names import (
    codings_of,
    element_names,
    elements_at,
    names_at,
    names_of,
)
from archqa.query.execution.elements import number_at, objects_at, text_at, value_at
from archqa.query.execution.rows import Row, parse_datetime
from archqa.query.execution.statuses import status_facts
from archqa.query.kinds import KINDS, Source


def declared_rows(context: ExecutionContext, what: str) -> list[Row]:
    """All rows of a kind, read once for each chart."""
    chart = context.chart
    return chart.get_or_compute(f"rows of {what}", lambda: _rows_of_kind(chart, what))


def _rows_of_kind(chart: Chart, what: str) -> list[Row]:
    rows = []
    for source in KINDS[what].sources:
        rows += source_rows(chart, source)
    return rows


def source_rows(chart: Chart, source: Source) -> list[Row]:
    """The rows of one type of resource."""
    rows = []
    for resource in source_resources(chart, source):
        for item in _items(source, resource):
            rows.append(declared_row(chart, source, resource, item))
    return rows


def source_resources(chart: Chart, source: Source) -> list[Resource]:
    """The patient's resources of a declared type; none of an optional type that a server lacks."""
    params = dict(source.search)
    if source.patient != "patient":
        params[source.patient] = f"Patient/{chart.patient}"
    search = chart.search_if_known if source.optional else chart.search
    resources = search(source.type, params)
    if not source.absent:
        return resources
    return [each for each in resources if value_at(each, source.absent) is None]


def declared_row(chart: Chart, source: Source, resource: Resource, item: Any = None) -> Row:
    """One resource, or one item of it, as a row."""
    named = [
        element
        for element in _rooted(resource, item, source.names)
        if not _is_ignored(source, element)
    ]
    names = names_of(chart, named)
    number, unit, text = _value(chart, _rooted(resource, item, source.values))
    stay = chart.find_stay(value_at(resource, source.encounter))
    return Row(
        refs=(f"{resource['resourceType']}/{resource['id']}",),
        name=next(iter(names), ""),
        names=names,
        codings=codings_of(chart, named),
        time=parse_datetime(text_at(resource, *source.times)),
        end=parse_datetime(text_at(resource, *source.ends)),
        value=number,
        text=text,
        unit=unit,
        hospital_visit_id=stay.hospital_visit_id,
        icu_stay_id=stay.icu_stay_id,
        facts=declared_facts(chart, source, resource),
    )


def declared_facts(chart: Chart, source: Source, resource: Resource) -> dict[str, tuple[str, ...]]:
    """The statuses of a resource and the names at the paths of its further fields."""
    facts = status_facts(source.statuses, resource)
    for fact, paths in source.facts:
        names = names_at(chart, resource, paths)
        if names:
            facts[fact] = names
    return facts


def _items(source: Source, resource: Resource) -> list[Any]:
    """The elements that are one row each; the resource itself where none are declared."""
    if not source.items:
        return [None]
    return list(objects_at(resource, source.items))


def _rooted(resource: Resource, item: Any, paths: tuple[str, ...]) -> list[Any]:
    """The elements at the paths, of which those with a leading dot start at the item."""
    elements = []
    for path in paths:
        root = item if path.startswith(".") else resource
        elements += elements_at(root, (path.lstrip("."),))
    return elements


def _is_ignored(source: Source, element: Any) -> bool:
    """Whether a concept only has codes that tell nothing of the row."""
    systems = [text_at(coding, "system") for coding in objects_at(element, "coding")]
    if not systems or not source.ignored_codes:
        return False
    return all(system.endswith(source.ignored_codes) for system in systems)


def _value(chart: Chart, elements: list[Any]) -> tuple[float | None, str, str]:
    """Number, unit and text of the first element that says anything."""
    for element in elements:
        number = number_at(element, "value")
        if number is not None:
            return number, text_at(element, "unit", "code"), f"{number:g}"
        names = element_names(chart, element)
        if names:
            return None, "", names[0]
    return None, "", ""
