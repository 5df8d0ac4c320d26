"""The three tools that retrieve resources from a record, as FHIR-AgentBench defines them.

Source: glee4810/FHIR-AgentBench at bbb4290, `tools/`. With `official`, they keep its quirks: a GET
returns only the first page of a search and nothing for a plain read, and resources are searched by
the parameter `id`, which the benchmark's server (Google Cloud Healthcare) does not know and
ignores. Without it, reads and all pages work, and one id returns one resource.
"""

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar
from urllib.parse import quote

from pydantic import Field

from archqa.agents.tools import Tool, ToolResult, group_by_type, tool_error
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
"""The types in the benchmark's prompts and in its `get_all_resources_by_patient_fhir_id`."""

_ID = re.compile(r"[A-Za-z0-9.-]{1,64}")
"""An id of FHIR (hl7.org/fhir/R4/datatypes.html#id)."""

_OMITTED_ELEMENTS = frozenset({"text", "meta"})


class Request(FrozenModel):
    """What a GET asks for, without the server's address."""

    query_string: str = Field(
        description="What follows the server's address, such as Encounter?patient=ID&_count=50"
    )


class FhirRequestGet(Tool[Request]):
    """A GET request that returns resources by type."""

    name: ClassVar[str] = "fhir_request_get"
    description: ClassVar[str] = "FHIR GET request"
    takes = Request

    def __init__(self, *, official: bool = True) -> None:
        self._official = official

    def run(self, record: Record, args: Request) -> ToolResult:
        """The first page unchanged with `official`; without it every page, and reads."""
        query = args.query_string.strip().lstrip("/")
        path, _, search = query.partition("?")
        if "/" in path and not search:
            return ToolResult() if self._official else _read(record, path)
        if not self._official:
            return ToolResult(group_by_type(_trim(record.search_all(query))))
        entries = record.search(query).entries
        resources = [entry.resource for entry in entries if entry.mode != "outcome"]
        return ToolResult(group_by_type(resources))


class OfPatient(FrozenModel):
    """A type, and whose."""

    resource_type: str = Field(description="FHIR resource type, such as Observation")
    patient_fhir_id: str = Field(description="FHIR id of the patient")


class GetResourcesByPatientFhirId(Tool[OfPatient]):
    """All resources of one type and patient, all pages, without `text` and `meta`."""

    name: ClassVar[str] = "get_resources_by_patient_fhir_id"
    description: ClassVar[str] = "Get all FHIR resources of one type for a patient"
    takes = OfPatient

    def run(self, record: Record, args: OfPatient) -> ToolResult:
        """Search by `patient`; the server decides about a type without this parameter."""
        return _search_all(record, args.resource_type, f"patient={quote(args.patient_fhir_id)}")


class OfResource(FrozenModel):
    """A type and an id."""

    resource_type: str = Field(description="FHIR resource type, such as Medication")
    resource_id: str = Field(description="FHIR id of the resource")


class GetResourcesByResourceId(Tool[OfResource]):
    """The benchmark's tool: what a search by the parameter `id` returns, without `text` and `meta`.

    Its server ignores that parameter and returns the whole type.
    """

    name: ClassVar[str] = "get_resources_by_resource_id"
    description: ClassVar[str] = "Get FHIR resources of one type by resource id"
    takes = OfResource

    def run(self, record: Record, args: OfResource) -> ToolResult:
        """Search by the id."""
        return _search_all(record, args.resource_type, f"id={quote(args.resource_id)}")


class GetResourceById(GetResourcesByResourceId):
    """The one resource with an id, without `text` and `meta`."""

    description: ClassVar[str] = "Get the one FHIR resource with this type and id"

    def run(self, record: Record, args: OfResource) -> ToolResult:
        """Read it; `Type/id` is an id, too. Raises `FhirError` (404) if there is none."""
        resource_id = args.resource_id.strip().removeprefix(f"{args.resource_type}/")
        if not args.resource_type.isalpha() or not _ID.fullmatch(resource_id):
            return tool_error(
                "search", "Give a resource type and one id, such as Medication and m1."
            )
        return _read(record, f"{args.resource_type}/{resource_id}")


def _search_all(record: Record, resource_type: str, search: str) -> ToolResult:
    if not resource_type.isalpha():
        return tool_error("search", "There is no such resource type.")
    resources = record.search_all(f"{resource_type}?{search}")
    return ToolResult({resource_type: list(_trim(resources))})


def _read(record: Record, path: str) -> ToolResult:
    resource_type, _, resource_id = path.partition("/")
    resource = record.get(resource_type, resource_id)
    if resource is None:
        raise FhirError(f"There is no {resource_type} of that id.", 404, "not-found")
    return ToolResult(group_by_type(_trim([resource])))


def _trim(resources: Iterable[Resource]) -> Iterator[Resource]:
    for resource in resources:
        yield {name: value for name, value in resource.items() if name not in _OMITTED_ELEMENTS}
