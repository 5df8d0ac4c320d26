"""Retrieval tools that return resources of one patient only: an answer tells of nobody else."""

from collections.abc import Iterator
from typing import Any

from archqa.agents.tools import ToolResult, tool_error
from archqa.fhir import Record, Resource
from archqa.fhir.values.references import parse_reference
from archqa.tasks.fhir_agentbench.retrieval_tools import (
    GetResourceById,
    GetResourcesByPatientFhirId,
    OfPatient,
    OfResource,
)

_PATIENT_ELEMENTS = ("subject", "patient", "beneficiary", "individual", "for")
"""Elements by which resources of R4 refer to the patient whom they are about."""


class GetResourcesOfThisPatient(GetResourcesByPatientFhirId):
    """The same for one patient, whichever a call names."""

    def __init__(self, patient: str) -> None:
        self._patient = patient

    def run(self, record: Record, args: OfPatient) -> ToolResult:
        """Search for the patient's own; a call for another one is an error."""
        if args.patient_fhir_id.removeprefix("Patient/") != self._patient:
            return tool_error("search", f"Only resources of patient {self._patient} are fetched.")
        if args.resource_type == "Patient":  # A server may ignore `patient` and return everyone.
            the_patient = OfResource(resource_type="Patient", resource_id=self._patient)
            return GetResourceById().run(record, the_patient)
        return super().run(record, args)


class GetReferredResources(GetResourceById):
    """The resource with an id, unless it is about another patient."""

    def __init__(self, patient: str) -> None:
        self._patient = patient

    def run(self, record: Record, args: OfResource) -> ToolResult:
        """Read it; what is about another patient is an error."""
        result = super().run(record, args)
        for resources in result.resources.values():
            for resource in resources:
                if is_of_another(resource, self._patient):
                    return tool_error("search", "That resource is about another patient.")
        return result


def is_of_another(resource: Resource, patient: str) -> bool:
    """Whether a resource is, or is about, another patient."""
    if resource.get("resourceType") == "Patient":
        return resource.get("id") != patient
    patients = set(_patients(resource))
    return bool(patients) and patient not in patients


def _patients(resource: Resource) -> Iterator[str]:
    for name in _PATIENT_ELEMENTS:
        element: Any = resource.get(name)
        text = element.get("reference") if isinstance(element, dict) else None
        target = parse_reference(text) if isinstance(text, str) else None
        if target is not None and target.type in {"Patient", ""}:
            yield target.id
