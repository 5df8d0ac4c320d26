"""Validate a resource before it is written: required elements, value sets, patient, shapes.

Sources: hl7.org/fhir/R4 (observation, medicationrequest, servicerequest and their value sets), the
required fields of MedAgentBench's functions (`funcs_v1.json`). Findings name elements and rules;
they never quote the payload.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

from archqa.core.value import FrozenModel
from archqa.fhir.record import member_of
from archqa.fhir.values.dates import parse_time_range
from archqa.fhir.values.names import names_by_key, names_in
from archqa.fhir.values.references import parse_reference_element
from archqa.fhir.values.resource_types import did_you_mean


class Finding(FrozenModel):
    """A remark on an element: `error` is invalid, `warn` doubtful, `info` worth knowing."""

    level: Literal["error", "warn", "info"]
    path: str
    message: str

    @property
    def text(self) -> str:
        """The remark with its element in front, if it has one."""
        return f"{self.path}: {self.message}".removeprefix(": ")


REQUIRED_ELEMENTS = names_by_key("required")
"""The types that may be written with their required elements.

`value` and `medication` are choices: any member whose name begins so.
"""


_CONCEPTS = names_in("concepts")
_CONCEPT_LISTS = names_in("lists of concepts")
_LISTS = {"dosageInstruction", "doseAndRate"}
_CHOICES = {"value", "medication"}
_DATES = names_in("dates")
_TIME_WITH_ZONE = re.compile(r"[^T\n]*+T.*(?:Z|[+-]\d\d:\d\d)")


def validate_resource(
    resource: Any,
    resource_type: str,
    has_patient: Callable[[str], bool],
) -> list[Finding]:
    """Return all findings on a resource that is to be written as this type."""
    if not isinstance(resource, dict):
        return [_error("", "the body must be a JSON object.")]
    if resource_type not in REQUIRED_ELEMENTS:
        hint = did_you_mean(resource_type, frozenset(REQUIRED_ELEMENTS))
        return [_error("resourceType", f"this type cannot be written.{hint}")]
    if resource.get("resourceType") != resource_type:
        return [_error("resourceType", f"must be {resource_type}, as in the URL.")]
    return [
        *_check_elements(resource, resource_type),
        *_check_subject(resource, has_patient),
        *_check_tree(resource, ""),
        *_check_notes(resource),
    ]


def _error(path: str, message: str) -> Finding:
    return Finding(level="error", path=path, message=message)


def _check_elements(resource: dict[str, Any], resource_type: str) -> Iterator[Finding]:
    """Check that required elements are there, and that codes are of their value sets."""
    for name in REQUIRED_ELEMENTS[resource_type]:
        if name in _CHOICES:
            is_present = any(member.startswith(name) for member in resource)
        else:
            is_present = resource.get(name) not in (None, "", [], {})
        is_excused = name == "value" and "dataAbsentReason" in resource
        if not (is_present or is_excused):
            yield _error(f"{name}[x]" if name in _CHOICES else name, "is required.")
    for element, allowed in names_by_key(f"values of {resource_type}").items():
        value = resource.get(element)
        if value is not None and value not in allowed:
            yield _error(element, f"must be one of {', '.join(allowed)}.")
    if not isinstance(resource.get("meta") or {}, dict):
        yield _error("meta", "must be a JSON object.")


def _check_subject(
    resource: dict[str, Any], has_patient: Callable[[str], bool]
) -> Iterator[Finding]:
    subject = resource.get("subject")
    if subject is None:
        return
    target = parse_reference_element(subject)
    if target is None or target.type != "Patient":
        yield _error("subject.reference", "must be Patient/id.")
    elif not has_patient(target.id):
        yield _error("subject.reference", "there is no such patient in this record.")


def _check_tree(node: dict[str, Any], path: str) -> Iterator[Finding]:
    """Check the shape of every member at any depth."""
    for name, value in node.items():
        member_path = f"{path}.{name}" if path else name
        yield from _check_member(name, value, member_path)
        if isinstance(value, dict):
            yield from _check_tree(value, member_path)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield from _check_tree(item, f"{member_path}[{index}]")


def _check_member(name: str, value: Any, path: str) -> Iterator[Finding]:
    # The `code` of a Coding or a Quantity is a string.
    is_plain_code = path.endswith(".code") and ("coding" in path or "Quantity" in path)
    if name == "coding":
        yield from _check_codings(value, path)
    elif name in _CONCEPT_LISTS:
        if not _is_list_of_objects(value):
            yield _error(path, "must be a list of CodeableConcepts.")
    elif name in _CONCEPTS:
        if not isinstance(value, dict) and not is_plain_code:
            yield _error(path, "must be a CodeableConcept: {coding: [...], text: ...}.")
    elif name in _DATES:
        if not isinstance(value, str) or parse_time_range(value) is None:
            yield _error(path, "must be a dateTime like 2023-11-13T10:15:00+00:00.")
        elif not _TIME_WITH_ZONE.fullmatch(value):
            yield _error(
                path, "must carry a time and its zone, like 2023-11-13T10:15:00+00:00."
            )
    elif name.endswith("Quantity"):
        yield from _check_quantity(value, path)
    elif name in _LISTS and not isinstance(value, list):
        yield _error(path, "must be a list.")


def _check_quantity(value: Any, path: str) -> Iterator[Finding]:
    number = member_of(value, "value")
    if isinstance(number, bool) or not isinstance(number, int | float):
        yield _error(f"{path}.value", "must be a number.")
    elif not (value.get("unit") or value.get("code")):
        yield Finding(level="warn", path=path, message="has no unit.")


def _check_codings(codings: Any, path: str) -> Iterator[Finding]:
    if not _is_list_of_objects(codings):
        yield _error(path, "must be a list of Codings.")
        return
    for index, coding in enumerate(codings):
        missing = []
        for name in ("system", "code"):
            text = coding.get(name)
            if not isinstance(text, str) or not text:
                missing.append(name)
        if missing:
            yield _error(f"{path}[{index}]", f"needs {' and '.join(missing)}.")


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _check_notes(resource: dict[str, Any]) -> Iterator[Finding]:
    """Check that `note` is a list of Annotations with texts."""
    notes = resource.get("note", [])
    if not isinstance(notes, list):
        yield _error("note", "must be a list of Annotations: [{text: ...}].")
        return
    for note in notes:
        if not isinstance(note, dict) or not isinstance(note.get("text"), str):
            yield _error("note", "every Annotation needs a text.")
            return
