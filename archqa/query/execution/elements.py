"""Elements of a resource, whatever shape it is in: a record holds what somebody once wrote."""

from typing import Any

from archqa.fhir import Resource
from archqa.fhir.values.paths import compile_path


def value_at(resource: Any, path: str) -> Any:
    """The first value at a path such as `dosageInstruction.route`; None if there is none."""
    return next(iter(compile_path(path)(resource)), None) if isinstance(resource, dict) else None


def objects_at(resource: Any, path: str) -> list[Resource]:
    """The objects at a path."""
    return (
        [each for each in compile_path(path)(resource) if isinstance(each, dict)]
        if isinstance(resource, dict)
        else []
    )


def text_at(resource: Any, *paths: str) -> str:
    """The first text at the first of the paths that leads to one; empty if none does."""
    for path in paths:
        found = value_at(resource, path)
        if isinstance(found, str) and found:
            return found
    return ""


def number_at(resource: Any, path: str) -> float | None:
    """The number at a path; None if there is none."""
    found = value_at(resource, path)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None
