"""What a client may see that is restricted to one patient: nothing that tells of another one.

A search is made within the patient's compartment (hl7.org/fhir/R4/compartmentdefinition-patient).
What could reach another patient's resources, such as `_has` or a chain, is refused, also where a
reply would only tell whether they exist.
"""

from collections.abc import Iterator
from typing import Any

from archqa.errors import CallerError
from archqa.fhir import Record, Resource
from archqa.fhir.values.names import names_in
from archqa.fhir.values.references import PATIENT_ELEMENTS, parse_reference_element
from archqa.fhir.values.search_parameters import parameters
from archqa.fhir.values.urls import Params

SHARED_TYPES = names_in("shared types")
"""Types that are about no patient, and that a patient's resources refer to."""

_REACHING_OTHERS = ("_has", "_revinclude", "_list", "_filter", "_query", "_in")

ONE_PATIENT = (
    "This server answers about one patient only, and nothing about others.\n"
    "Leave the patient out, or name the one in the server's instructions by FHIR id."
)
_NO_SUCH_SEARCH = (
    "This server answers about one patient only: _has, chains and _revinclude are not searched.\n"
    "Search the patient's own resources by their own parameters."
)
_NOT_OF_PATIENT = (
    "This server answers about one patient only: this type is not searched.\n"
    "Search a type that has the parameter `patient`, or one of: "
    + ", ".join(SHARED_TYPES)
    + "."
)


def within_patient(
    path: str,
    params: Params,
    patient: str,
) -> tuple[str, Params]:
    """Return a search that matches only the patient's resources.

    Raises `CallerError` for a search that cannot be restricted.
    """
    parts = path.removesuffix("/_search").split("/")
    if len(parts) == 3 and parts[:2] == ["Patient", patient]:
        parts = parts[2:]
    if len(parts) != 1:
        raise CallerError(ONE_PATIENT)
    resource_type = parts[0]
    for name, _ in params:
        if "." in name or name.partition(":")[0] in _REACHING_OTHERS:
            raise CallerError(_NO_SUCH_SEARCH)
    if resource_type == "Patient":
        return resource_type, [*params, ("_id", patient)]
    if _has_patient(resource_type):
        return resource_type, [*params, ("patient", patient)]
    if resource_type in SHARED_TYPES:
        return resource_type, params
    raise CallerError(_NOT_OF_PATIENT)


def is_of_patient(resource: Resource, patient: str) -> bool:
    """Whether a resource may be shown: about this patient alone, or about none."""
    resource_type = str(resource.get("resourceType", ""))
    if resource_type == "Patient":
        return resource.get("id") == patient
    if resource_type in SHARED_TYPES:
        return not set(_mentioned_patients(resource)) - {patient}
    return set(_subjects(resource)) == {patient}


def is_in_record_of(record: Record, resource: Resource, patient: str) -> bool:
    """Whether a resource of a store may be shown: also one that refers to this patient otherwise.

    An Appointment has participants; a Group that has other members too is not shown.
    """
    resource_type = str(resource.get("resourceType", ""))
    if is_of_patient(resource, patient):
        return True
    if resource_type == "Patient" or not _has_patient(resource_type):
        return False
    if {*_mentioned_patients(resource), *_subjects(resource)} - {patient}:
        return False
    resource_id = str(resource.get("id", ""))
    matches = record.search(
        resource_type, {"_id": resource_id, "patient": patient}
    ).resources
    return any(match.get("id") == resource_id for match in matches)


def refers_to_others(resource: Any, patient: str) -> bool:
    """Whether a resource that is to be written is about, or refers to, another patient."""
    subjects = set(_subjects(resource)) if isinstance(resource, dict) else set()
    return subjects != {patient} or bool(set(_mentioned_patients(resource)) - {patient})


def _has_patient(resource_type: str) -> bool:
    return "patient" in parameters(resource_type)


def _subjects(resource: Resource) -> Iterator[str]:
    for name in PATIENT_ELEMENTS:
        element = resource.get(name)
        for reference in element if isinstance(element, list) else [element]:
            target = parse_reference_element(reference)
            if target is not None and target.type in {"Patient", ""}:
                yield target.id


def _mentioned_patients(node: Any) -> Iterator[str]:
    """Yield the ids of all patients that any element refers to, or that are contained."""
    if isinstance(node, list):
        for item in node:
            yield from _mentioned_patients(item)
    elif isinstance(node, dict):
        target = parse_reference_element(node)
        if target is not None and target.type == "Patient":
            yield target.id
        if node.get("resourceType") == "Patient":
            yield str(node.get("id", ""))
        for value in node.values():
            yield from _mentioned_patients(value)
