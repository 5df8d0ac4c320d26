"""The server's CapabilityStatement. Source: hl7.org/fhir/R4/capabilitystatement.html."""

from typing import Any

import archqa
from archqa.fhir.profile import Profile
from archqa.fhir.request_budget import DEFAULT_LIMITS
from archqa.fhir.search.compartment import SUPPORTED_COMPARTMENTS
from archqa.fhir.server.request_bundle import MAX_ENTRIES
from archqa.fhir.values.search_parameters import Kind, parameters
from archqa.fhir.write.validation import REQUIRED_ELEMENTS
from archqa.fhir.write.writer import WriteMode

_DATE = "2026-11-21"
_COMMON_PARAMETERS = {"_id": Kind.TOKEN, "_lastUpdated": Kind.DATE}
_DEFINITIONS = "http://hl7.org/fhir/OperationDefinition"
_OPERATIONS = {
    "Patient": {"everything": f"{_DEFINITIONS}/Patient-everything"},
    "Encounter": {"everything": f"{_DEFINITIONS}/Encounter-everything"},
    "Observation": {"lastn": f"{_DEFINITIONS}/Observation-lastn"},
}
_VALIDATE = f"{_DEFINITIONS}/Resource-validate"
_COMPARTMENTS = "http://hl7.org/fhir/CompartmentDefinition"
_BULK_DATA = "http://hl7.org/fhir/uv/bulkdata"
_EXPORTS = ("export", "patient-export", "group-export")


def capability_statement(
    base: str, types: list[str], profile: Profile, mode: WriteMode
) -> dict[str, Any]:
    """Return the CapabilityStatement of a record that holds these types."""
    writable = [] if mode is WriteMode.READ_ONLY else list(REQUIRED_ELEMENTS)
    resources = []
    for name in sorted({*types, *writable}):
        resources.append(_resource(name, name in writable))
    rest: dict[str, Any] = {"mode": "server", "documentation": _limits(profile)}
    rest["resource"] = resources
    if mode is WriteMode.APPLY:
        rest["interaction"] = [{"code": "transaction"}, {"code": "batch"}]
    rest.setdefault("interaction", []).append({"code": "history-system"})
    compartments = [name.lower() for name in SUPPORTED_COMPARTMENTS]
    rest["compartment"] = [f"{_COMPARTMENTS}/{name}" for name in compartments]
    rest["operation"] = _export_operations()
    return {
        "resourceType": "CapabilityStatement",
        "status": "active",
        "date": _DATE,
        "kind": "instance",
        "instantiates": [f"{_BULK_DATA}/CapabilityStatement/bulk-data"],
        "software": {"name": f"archqa ({profile.name} profile)", "version": archqa.__version__},
        "implementation": {"description": "A FHIR record in one file", "url": base},
        "fhirVersion": "4.0.1",
        "format": ["json", "application/fhir+json"],
        "rest": [rest],
    }


def _export_operations() -> list[dict[str, str]]:
    """Return the operations of the Bulk Data Access guide, 2.0."""
    operations = []
    for name in _EXPORTS:
        definition = f"{_BULK_DATA}/OperationDefinition/{name}"
        operations.append({"name": name, "definition": definition})
    return operations


def _limits(profile: Profile) -> str:
    limits = DEFAULT_LIMITS
    larger = ""
    if profile.max_count is None:
        larger = ", a larger one without _include is streamed"
    return (
        f"A page holds at most {largest_page(profile)} matches (_count){larger}, a reply at most"
        f" {limits.resources} resources and {limits.reply_bytes // 2**20} MiB of them, a Bundle at"
        f" most {MAX_ENTRIES} requests; a request may take {limits.seconds:g} seconds."
    )


def largest_page(profile: Profile) -> int:
    """Return the largest `_count` that a server of this profile grants."""
    limit = DEFAULT_LIMITS.page_size
    return min(profile.max_count or limit, limit)


def _resource(resource_type: str, is_writable: bool) -> dict[str, Any]:
    kinds = dict(_COMMON_PARAMETERS)
    for parameter in parameters(resource_type).values():
        kinds[parameter.name] = parameter.kind
    interactions = ["read", "vread", "history-instance", "history-type", "search-type"]
    if is_writable:
        interactions.append("create")
    search_params = []
    includes = []
    for name, kind in sorted(kinds.items()):
        search_params.append({"name": name, "type": kind.value})
        if kind is Kind.REFERENCE:
            includes.append(f"{resource_type}:{name}")
    resource: dict[str, Any] = {
        "type": resource_type,
        "interaction": [{"code": code} for code in interactions],
        "versioning": "versioned",
        "readHistory": True,
        "conditionalCreate": is_writable,
        "conditionalRead": "full-support",
        "searchParam": search_params,
        "searchInclude": includes,
    }
    operations = {**_OPERATIONS.get(resource_type, {}), "validate": _VALIDATE}
    resource["operation"] = [
        {"name": name, "definition": definition} for name, definition in operations.items()
    ]
    return resource
