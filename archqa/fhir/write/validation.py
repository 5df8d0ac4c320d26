"""Whether a resource may be written: what an order or an observation must hold, in FHIR's shape.

Sources: hl7.org/fhir/R4 (observation, medicationrequest, servicerequest and their value sets), the required fields of
MedAgentBench's functions (`funcs_v1.json`). Findings name places and rules; they never quote the payload.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

from archqa.core.value import FrozenModel
from archqa.fhir.values.dates import parse_time_range
from archqa.fhir.values.references import parse_reference
from archqa.fhir.values.resource_types import did_you_mean


class Finding(FrozenModel):
    """One thing that is wrong (`error`), doubtful (`warn`) or worth knowing (`info`), and where."""

    level: Literal["error", "warn", "info"]
    path: str
    message: str


REQUIRED_ELEMENTS = {
    "Observation": ("status", "code", "category", "subject", "effectiveDateTime", "value"),
    "MedicationRequest": (
        "status",
        "intent",
        "medication",
        "subject",
        "authoredOn",
        "dosageInstruction",
    ),
    "ServiceRequest": ("status", "intent", "priority", "code", "subject", "authoredOn"),
}
"""What each type that may be written must have. `value` and `medication` are choices: any member that begins so."""

_REQUEST = "draft active on-hold revoked completed entered-in-error unknown"
VALUE_SETS = {
    (
        "Observation",
        "status",
    ): "registered preliminary final amended corrected cancelled entered-in-error unknown",
    (
        "MedicationRequest",
        "status",
    ): "active on-hold cancelled completed entered-in-error stopped draft unknown",
    (
        "MedicationRequest",
        "intent",
    ): "proposal plan order original-order reflex-order filler-order instance-order option",
    ("MedicationRequest", "priority"): "routine urgent asap stat",
    ("ServiceRequest", "status"): _REQUEST,
    (
        "ServiceRequest",
        "intent",
    ): "proposal plan directive order original-order reflex-order filler-order instance-order option",
    ("ServiceRequest", "priority"): "routine urgent asap stat",
}
"""The required bindings (hl7.org/fhir/R4/terminologies.html#required)."""

_CONCEPTS = {"code", "valueCodeableConcept", "medicationCodeableConcept", "route", "method", "site"}
_CONCEPT_LISTS = {"category", "reasonCode", "interpretation"}
_DATE = re.compile(r"(?:effectiveDateTime|authoredOn|occurrenceDateTime|issued|effectiveInstant)")
_ZONED = re.compile(r".*T.*(?:Z|[+-]\d\d:\d\d)")


def validate_resource(
    resource: Any, resource_type: str, has_patient: Callable[[str], bool]
) -> list[Finding]:
    """Everything there is to say about a resource that is to be written as this type."""
    if not isinstance(resource, dict):
        return [_error("", "the body must be a JSON object.")]
    if resource_type not in REQUIRED_ELEMENTS:
        known = frozenset(REQUIRED_ELEMENTS)
        return [
            _error(
                "resourceType", f"this type cannot be written.{did_you_mean(resource_type, known)}"
            )
        ]
    if resource.get("resourceType") != resource_type:
        return [_error("resourceType", f"must be {resource_type}, as in the URL.")]
    found = [*_required(resource, resource_type), *_bound(resource, resource_type)]
    found += [*_subject(resource, has_patient), *_tree(resource, ""), *_notes(resource)]
    return found


def _error(path: str, message: str) -> Finding:
    return Finding(level="error", path=path, message=message)


def _required(resource: dict[str, Any], resource_type: str) -> Iterator[Finding]:
    for name in REQUIRED_ELEMENTS[resource_type]:
        choice = name in {"value", "medication"}
        there = (
            any(key.startswith(name) for key in resource)
            if choice
            else resource.get(name) not in (None, "", [], {})
        )
        if not there and not (name == "value" and "dataAbsentReason" in resource):
            yield _error(f"{name}[x]" if choice else name, "is required.")


def _bound(resource: dict[str, Any], resource_type: str) -> Iterator[Finding]:
    for (name, element), codes in VALUE_SETS.items():
        value = resource.get(element)
        if name == resource_type and value is not None and value not in codes.split():
            yield _error(element, f"must be one of {codes.replace(' ', ', ')}.")


def _subject(resource: dict[str, Any], has_patient: Callable[[str], bool]) -> Iterator[Finding]:
    subject = resource.get("subject")
    if subject is None:
        return
    reference = subject.get("reference") if isinstance(subject, dict) else None
    named = parse_reference(reference) if isinstance(reference, str) else None
    if named is None or named.type != "Patient":
        yield _error("subject.reference", "must be Patient/id.")
    elif not has_patient(named.id):
        yield _error("subject.reference", "there is no such patient in this record.")


def _tree(node: dict[str, Any], path: str) -> Iterator[Finding]:
    """Shapes that every place of the tree must have."""
    for name, value in node.items():
        here = f"{path}.{name}" if path else name
        yield from _shape(name, value, here)
        for number, item in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(item, dict):
                yield from _tree(item, here if number is None else f"{here}[{number}]")


def _shape(name: str, value: Any, here: str) -> Iterator[Finding]:
    if name in _CONCEPT_LISTS or name == "coding":
        kind = "Codings" if name == "coding" else "CodeableConcepts"
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            yield _error(here, f"must be a list of {kind}.")
        elif name == "coding":
            yield from _codings(value, here)
    elif name in _CONCEPTS and not _is_plain_code(here) and not isinstance(value, dict):
        yield _error(here, "must be a CodeableConcept: {coding: [...], text: ...}.")
    elif _DATE.fullmatch(name):
        yield from _time(value, here)
    elif name.endswith("Quantity"):
        yield from _quantity(value, here)
    elif name in {"dosageInstruction", "doseAndRate"} and not isinstance(value, list):
        yield _error(here, "must be a list.")


def _is_plain_code(here: str) -> bool:
    """The `code` of a Coding or a Quantity is a string."""
    return here.endswith(".code") and ("coding" in here or "Quantity" in here)


def _codings(codings: list[dict[str, Any]], here: str) -> Iterator[Finding]:
    for number, coding in enumerate(codings):
        missing = [
            name
            for name in ("system", "code")
            if not isinstance(coding.get(name), str) or not coding[name]
        ]
        if missing:
            yield _error(f"{here}[{number}]", f"needs {' and '.join(missing)}.")


def _time(value: Any, here: str) -> Iterator[Finding]:
    if not isinstance(value, str) or parse_time_range(value) is None:
        yield _error(here, "must be a dateTime like 2023-11-13T10:15:00+00:00.")
    elif not _ZONED.fullmatch(value):
        yield _error(here, "must carry a time and its zone, like 2023-11-13T10:15:00+00:00.")


def _quantity(value: Any, here: str) -> Iterator[Finding]:
    number = value.get("value") if isinstance(value, dict) else None
    if isinstance(number, bool) or not isinstance(number, int | float):
        yield _error(f"{here}.value", "must be a number.")
    elif not (value.get("unit") or value.get("code")):
        yield Finding(level="warn", path=here, message="has no unit.")


def _notes(resource: dict[str, Any]) -> Iterator[Finding]:
    """`note` is a list of Annotations, each with a text."""
    if "note" not in resource:
        return
    notes = resource["note"]
    if not isinstance(notes, list):
        yield _error("note", "must be a list of Annotations: [{text: ...}].")
    elif not all(isinstance(note, dict) and isinstance(note.get("text"), str) for note in notes):
        yield _error("note", "every Annotation needs a text.")
