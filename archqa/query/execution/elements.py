"""Access to elements of a resource that tolerates malformed content."""

from typing import Any

from archqa.fhir import Resource
from archqa.fhir.values.element_values import compile_path


def value_at(resource: Any, path: str) -> Any:
    """The first value at a path such as `dosageInstruction.route`; None if there is none."""
    if not isinstance(resource, dict):
        return None
    return next(iter(compile_path(path)(resource)), None)


def objects_at(resource: Any, path: str) -> list[Resource]:
    """The objects at a path."""
    if not isinstance(resource, dict):
        return []
    return [element for element in compile_path(path)(resource) if isinstance(element, dict)]


def text_at(resource: Any, *paths: str) -> str:
    """The first non-empty text at any of the paths, tried in order; empty if there is none."""
    for path in paths:
        text = value_at(resource, path)
        if isinstance(text, str) and text:
            return text
    return ""


def number_at(resource: Any, path: str) -> float | None:
    """The number at a path; None if there is none."""
    number = value_at(resource, path)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return number
