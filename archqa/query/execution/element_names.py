"""Any element as names: a concept, a code, a reference, a quantity, a range or a text."""

from collections.abc import Iterable
from typing import Any

from archqa.fhir.values.element_values import compile_path
from archqa.query.execution.chart import Chart
from archqa.query.execution.elements import number_at, objects_at, text_at
from archqa.query.execution.names import concept_codings, concept_names
from archqa.query.execution.rows import Coding

_CODED_ELEMENTS = (
    "code",
    "vaccineCode",
    "procedureCode",
    "medicationCodeableConcept",
    "description",
    "deviceName.name",
)
_KIND_ELEMENTS = ("type", "category")
_NAMED_ELEMENTS = (*_CODED_ELEMENTS, "name", *_KIND_ELEMENTS)
"""Where a referenced resource has its name, tried in order: what it is, then of what kind."""


def names_at(chart: Chart, resource: Any, paths: Iterable[str]) -> tuple[str, ...]:
    """The names of all elements at the paths, each once."""
    return names_of(chart, elements_at(resource, paths))


def names_of(chart: Chart, elements: Iterable[Any]) -> tuple[str, ...]:
    """The names of the elements, each once."""
    names: dict[str, None] = {}
    for element in elements:
        names.update(dict.fromkeys(element_names(chart, element)))
    return tuple(names)


def codings_of(chart: Chart, elements: Iterable[Any]) -> tuple[Coding, ...]:
    """The codes of the elements, each once; those of what a reference points to."""
    codings: dict[Coding, None] = {}
    for element in elements:
        codings.update(dict.fromkeys(_element_codings(chart, element)))
    return tuple(codings)


def elements_at(resource: Any, paths: Iterable[str]) -> list[Any]:
    """All elements at the paths, in the order of the paths."""
    elements: list[Any] = []
    if isinstance(resource, dict):
        for path in paths:
            elements += compile_path(path)(resource)
    return elements


def element_names(chart: Chart, element: Any) -> tuple[str, ...]:
    """The names of one element; none if it says nothing."""
    if not isinstance(element, dict):
        return concept_names(element)
    if "reference" in element or "identifier" in element:
        return reference_names(chart, element)
    if "family" in element or "given" in element:
        return _nonempty(_human_name(element))
    if "coding" in element or "text" in element:
        return concept_names(element)
    if "low" in element or "high" in element:
        return _nonempty(_range_text(element))
    if "value" in element:
        return _nonempty(_quantity_text(element))
    return concept_names({"coding": [element]})


def reference_names(chart: Chart, reference: Any) -> tuple[str, ...]:
    """The names of what a reference points to; its own display where the record lacks that."""
    names: list[str] = []
    for target in chart.targets(reference):
        names += resource_names(chart, target)
    display = text_at(reference, "display")
    if display:
        names.append(display)
    return tuple(dict.fromkeys(names))


def resource_names(chart: Chart, resource: Any) -> tuple[str, ...]:
    """The names of a resource, such as a diagnosis or a medicine."""
    for path in _NAMED_ELEMENTS:
        names = names_at(chart, resource, (path,))
        if names:
            return names
    return ()


def _element_codings(chart: Chart, element: Any) -> tuple[Coding, ...]:
    if not isinstance(element, dict) or "reference" not in element:
        return concept_codings(element)
    codings: list[Coding] = []
    for target in chart.targets(element):
        codings += codings_of(chart, elements_at(target, (*_CODED_ELEMENTS, *_KIND_ELEMENTS)))
    display = text_at(element, "display")
    if display:
        codings.append(Coding("", "", display))
    return tuple(codings)


def _human_name(name: dict[str, Any]) -> str:
    """A HumanName: its text, else prefix, given names, family name and suffix."""
    parts: list[str] = []
    for element in elements_at(name, ("prefix", "given", "family", "suffix")):
        if isinstance(element, str) and element:
            parts.append(element)
    return text_at(name, "text") or " ".join(parts)


def _quantity_text(quantity: dict[str, Any]) -> str:
    number = number_at(quantity, "value")
    if number is None:
        return ""
    unit = text_at(quantity, "unit", "code")
    return f"{text_at(quantity, 'comparator')}{number:g} {unit}".strip()


def _range_text(element: dict[str, Any]) -> str:
    bounds = [_quantity_text(bound) for bound in objects_at(element, "low")]
    bounds += [_quantity_text(bound) for bound in objects_at(element, "high")]
    return " to ".join(filter(None, bounds))


def _nonempty(text: str) -> tuple[str, ...]:
    return (text,) if text else ()
