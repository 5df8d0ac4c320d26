"""The three tools that get resources out of a record, as FHIR-AgentBench defines them.

Source: glee4810/FHIR-AgentBench at bbb4290, `tools/`. With `official`, their quirks are kept: a GET sees only the first
page of a search and nothing of a plain read, and the id of a resource is searched for as `id`, which the
benchmark's server (Google Cloud Healthcare) does not know and ignores. Without it, reads, all pages and `_id` work.
"""

from collections.abc import Iterable
from typing import ClassVar
from urllib.parse import quote

from pydantic import Field

from archqa.agents.tools.tool import Tool, ToolResult, group_by_type, tool_error
from archqa.core.value import FrozenModel
from archqa.fhir import FhirError, Record
from archqa.fhir.record import Resource

RESOURCE_TYPES = (
    "Patient",
    "Encounter",
    "Condition",
    "MedicationRequest",
    "Procedure",
    "Observation",
    "MedicationAdministration",
    "Location",
    "Specimen",
    "Medication",
)
"""The types the benchmark's agents are told of (its prompts, and `get_all_resources_by_patient_fhir_id`)."""

_LEFT_OUT = frozenset({"text", "meta"})


class Request(FrozenModel):
    """What a GET asks for, without the server's address."""

    query_string: str = Field(
        description="What follows the server's address, such as Encounter?patient=ID&_count=50"
    )


class FhirRequestGet(Tool[Request]):
    """A GET request; its resources by type."""

    name: ClassVar[str] = "fhir_request_get"
    description: ClassVar[str] = "FHIR GET request"
    takes = Request

    def __init__(self, *, official: bool = True) -> None:
        self._official = official

    def run(self, record: Record, args: Request) -> ToolResult:
        """The first page as it is; every page, and reads, where the benchmark's ways are not asked for."""
        query = args.query_string.strip().lstrip("/")
        path, _, search = query.partition("?")
        if "/" in path and not search:
            return ToolResult() if self._official else _read(record, path)
        if not self._official:
            return ToolResult(group_by_type(_trimmed(record.search_all(query))))
        entries = record.search(query).entries
        return ToolResult(
            group_by_type(entry.resource for entry in entries if entry.mode != "outcome")
        )


class OfPatient(FrozenModel):
    """A type, and whose."""

    resource_type: str = Field(description="FHIR resource type, such as Observation")
    patient_fhir_id: str = Field(description="FHIR id of the patient")


class GetResourcesByPatientFhirId(Tool[OfPatient]):
    """All resources of one type that are a patient's, all pages, without `text` and `meta`."""

    name: ClassVar[str] = "get_resources_by_patient_fhir_id"
    description: ClassVar[str] = "Get all FHIR resources of one type for a patient"
    takes = OfPatient

    def run(self, record: Record, args: OfPatient) -> ToolResult:
        """Search by `patient`; a type that has no such parameter is the server's affair."""
        return _all(record, args.resource_type, f"patient={quote(args.patient_fhir_id)}")


class OfResource(FrozenModel):
    """A type and an id."""

    resource_type: str = Field(description="FHIR resource type, such as Medication")
    resource_id: str = Field(description="FHIR id of the resource")


class GetResourcesByResourceId(Tool[OfResource]):
    """The resource of one id, without `text` and `meta`."""

    name: ClassVar[str] = "get_resources_by_resource_id"
    description: ClassVar[str] = "Get FHIR resources of one type by resource id"
    takes = OfResource

    def __init__(self, *, official: bool = True) -> None:
        self._parameter = "id" if official else "_id"

    def run(self, record: Record, args: OfResource) -> ToolResult:
        """Search by the id."""
        return _all(record, args.resource_type, f"{self._parameter}={quote(args.resource_id)}")


def _all(record: Record, resource_type: str, search: str) -> ToolResult:
    if not resource_type.isalpha():
        return tool_error("search", "There is no such resource type.")
    return ToolResult(
        {resource_type: list(_trimmed(record.search_all(f"{resource_type}?{search}")))}
    )


def _read(record: Record, path: str) -> ToolResult:
    resource_type, _, resource_id = path.partition("/")
    found = record.get(resource_type, resource_id)
    if found is None:
        raise FhirError(f"There is no {resource_type} of that id.", 404, "not-found")
    return ToolResult(group_by_type(_trimmed([found])))


def _trimmed(resources: Iterable[Resource]) -> Iterable[Resource]:
    return (
        {name: value for name, value in each.items() if name not in _LEFT_OUT} for each in resources
    )
