"""Access to elements of a resource that tolerates malformed content, and what they are called."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from archqa.core.recorded_numbers import recorded_text
from archqa.fhir import Resource
from archqa.fhir.values.element_values import compile_path
from archqa.query.execution.chart import Chart
from archqa.query.execution.rows import Coding, parse_datetime, without_timezone

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


def value_at(resource: Any, path: str) -> Any:
    """The first value at a path such as `dosageInstruction.route`; None if there is none."""
    if not isinstance(resource, dict):
        return None
    return next(iter(compile_path(path)(resource)), None)


def elements_at(resource: Any, paths: Iterable[str]) -> list[Any]:
    """All elements at the paths, in the order of the paths."""
    elements: list[Any] = []
    if isinstance(resource, dict):
        for path in paths:
            elements += compile_path(path)(resource)
    return elements


def objects_at(resource: Any, path: str) -> list[Resource]:
    """The objects at a path."""
    return [
        element
        for element in elements_at(resource, (path,))
        if isinstance(element, dict)
    ]


def text_at(resource: Any, *paths: str) -> str:
    """The first non-empty text at any of the paths, tried in order; empty if there is none."""
    for path in paths:
        text = value_at(resource, path)
        if isinstance(text, str) and text:
            return text
    return ""


def time_at(resource: Any, *paths: str) -> datetime | None:
    """The time at the first of the paths that has a text; None if it is no time."""
    return parse_datetime(text_at(resource, *paths))


def local_time_at(resource: Any, *paths: str) -> datetime | None:
    """The same time on the local clock of whoever recorded it."""
    return without_timezone(time_at(resource, *paths))


def number_at(resource: Any, path: str) -> float | None:
    """The number at a path; None if there is none."""
    number = value_at(resource, path)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return number


def concept_names(concept: Any) -> tuple[str, ...]:
    """The text and displays of a CodeableConcept; its first code if it has none of them."""
    if isinstance(concept, str) and concept:
        return (concept,)
    if not isinstance(concept, dict):
        return ()
    codings = objects_at(concept, "coding")
    labels = [concept.get("text"), *(coding.get("display") for coding in codings)]
    names = dict.fromkeys(label for label in labels if isinstance(label, str) and label)
    if names:
        return tuple(names)
    for coding in codings:
        code = coding.get("code")
        if isinstance(code, str):
            return (code,)
    return ()


def concept_name(concept: Any) -> str:
    """The first name of a CodeableConcept; empty if it has none."""
    return next(iter(concept_names(concept)), "")


def concept_codings(concept: Any) -> tuple[Coding, ...]:
    """The codings of a CodeableConcept or of a Coding, then its text as one without code."""
    if isinstance(concept, str):
        return (Coding("", "", concept),) if concept else ()
    if not isinstance(concept, dict):
        return ()
    elements = objects_at(concept, "coding")
    if "code" in concept and not elements:
        elements = [concept]
    codings = []
    for element in elements:
        system, code = text_at(element, "system"), text_at(element, "code")
        codings.append(Coding(system, code, text_at(element, "display")))
    text = text_at(concept, "text")
    if text:
        codings.append(Coding("", "", text))
    return tuple(codings)


def concept_code(concept: Any) -> str:
    """The first code of a CodeableConcept, else its first name."""
    return text_at(concept, "coding.code") or concept_name(concept)


def concept_codes(concept: Any) -> tuple[str, ...]:
    """Every code of a CodeableConcept or of a code; its text if it has none."""
    codings = concept_codings(concept)
    codes = tuple(coding.code for coding in codings if coding.code)
    return codes or tuple(coding.display for coding in codings)


def code_and_names(concept: Any) -> tuple[str, ...]:
    """The first code and all names of a CodeableConcept; a name may repeat the code."""
    names = concept_names(concept)
    code = concept_code(concept)
    return (code, *names) if code else names


def target_of(chart: Chart, reference: Any, *holders: Resource) -> Resource | None:
    """What a reference points to: a resource that a holder contains, or one of the record."""
    text = text_at(reference, "reference")
    if not text.startswith("#"):
        return next(iter(chart.targets(reference)), None) if text else None
    for holder in holders:
        for contained in objects_at(holder, "contained"):
            if text_at(contained, "id") == text[1:]:
                # Its id is that of no resource of the record.
                return {name: contained[name] for name in contained if name != "id"}
    return None


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
        if not isinstance(element, dict) or "reference" not in element:
            codings.update(dict.fromkeys(concept_codings(element)))
            continue
        for target in chart.targets(element):
            coded = elements_at(target, (*_CODED_ELEMENTS, *_KIND_ELEMENTS))
            codings.update(dict.fromkeys(codings_of(chart, coded)))
        display = text_at(element, "display")
        if display:
            codings[Coding("", "", display)] = None
    return tuple(codings)


def element_names(chart: Chart, element: Any) -> tuple[str, ...]:
    """The names of one element; none if it says nothing.

    An element is a concept, a code, a reference, a person's name, a quantity, a range or a text.
    """
    if not isinstance(element, dict):
        return concept_names(element)
    if "reference" in element or "identifier" in element:
        return reference_names(chart, element)
    if "family" in element or "given" in element:
        parts = elements_at(element, ("prefix", "given", "family", "suffix"))
        name = " ".join(part for part in parts if isinstance(part, str) and part)
        return concept_names(text_at(element, "text") or name)
    if "coding" in element or "text" in element:
        return concept_names(element)
    if "low" in element or "high" in element:
        bounds = [*objects_at(element, "low"), *objects_at(element, "high")]
        return concept_names(" to ".join(filter(None, map(quantity_text, bounds))))
    if "value" in element:
        return concept_names(quantity_text(element))
    return concept_names({"coding": [element]})


def quantity_text(quantity: Any) -> str:
    """A quantity as text, `>5 mg`; empty without a number."""
    number = number_at(quantity, "value")
    if number is None:
        return ""
    unit = text_at(quantity, "unit", "code")
    return f"{text_at(quantity, 'comparator')}{recorded_text(number)} {unit}".strip()


def reference_names(chart: Chart, reference: Any) -> tuple[str, ...]:
    """The names of what a reference points to; its own display where the record lacks that."""
    names: dict[str, None] = {}
    for target in chart.targets(reference):
        for path in _NAMED_ELEMENTS:
            target_names = names_at(chart, target, (path,))
            if target_names:
                names.update(dict.fromkeys(target_names))
                break
    display = text_at(reference, "display")
    if display:
        names[display] = None
    return tuple(names)
