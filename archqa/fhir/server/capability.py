"""The server's CapabilityStatement. Source: hl7.org/fhir/R4/capabilitystatement.html.

It declares exactly what the server answers: every type of R4, since a search for one that the record
does not hold is answered too.
"""

from typing import Any

from archqa.core.version import __version__
from archqa.fhir.profile import Profile
from archqa.fhir.request_budget import DEFAULT_LIMITS
from archqa.fhir.search.compartments import SUPPORTED_COMPARTMENTS
from archqa.fhir.search.result_parameters import RESULT_PARAMETERS
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES
from archqa.fhir.values.search_parameters import Kind, parameters
from archqa.fhir.write.validation import REQUIRED_ELEMENTS
from archqa.fhir.write.writer import WriteMode

MAX_ENTRIES = 5000
"""Requests in a Bundle."""

_DATE = "2026-11-26"
_R4 = "http://hl7.org/fhir/OperationDefinition"
OPERATION_DEFINITIONS = {
    "Encounter": {"everything": f"{_R4}/Encounter-everything"},
    "Patient": {"everything": f"{_R4}/Patient-everything"},
}
"""The operations of each type and their definitions."""

_COMPARTMENTS = "http://hl7.org/fhir/CompartmentDefinition"
_SYNTAX = (
    "Chains and _has follow up to three references. Modifiers: :missing on all parameters; :not, :text"
    " on tokens; :of-type on identifiers; :exact, :contains on strings; :identifier, :[type] on"
    " references; :above, :below on uris."
)


def capability_statement(
    base: str,
    types: list[str],
    profile: Profile,
    mode: WriteMode,
) -> dict[str, Any]:
    """Return the CapabilityStatement of a record that holds these types."""
    resources = [
        _resource(name, types, profile, mode) for name in sorted(R4_RESOURCE_TYPES)
    ]
    interactions = ["transaction", "batch"] if mode is WriteMode.APPLY else []
    names = {"_has"}
    names.update(name.partition(":")[0] for name in RESULT_PARAMETERS)
    general_parameters = []
    for name in sorted(names):
        kind = "number" if name in {"_count", "_offset"} else "string"
        general_parameters.append({"name": name, "type": kind})
    holdings = ", ".join(sorted(types)) or "no resource yet"
    limits = DEFAULT_LIMITS
    larger = ""
    if profile.max_count is None:
        larger = ", a larger one without _include is streamed"
    documentation = (
        f"A page holds at most {largest_page(profile)} matches (_count){larger}, a reply at most"
        f" {limits.resources} resources and {limits.reply_bytes // 2**20} MiB of them, a Bundle at"
        f" most {MAX_ENTRIES} requests; a request may take {limits.seconds:g} seconds. {_SYNTAX}"
    )
    rest = {
        "mode": "server",
        "documentation": documentation,
        "resource": resources,
        "interaction": _codes(interactions),
        "searchParam": general_parameters,
        "compartment": [
            f"{_COMPARTMENTS}/{name.lower()}" for name in SUPPORTED_COMPARTMENTS
        ],
    }
    return {
        "resourceType": "CapabilityStatement",
        "status": "active",
        "date": _DATE,
        "kind": "instance",
        "software": {
            "name": f"archqa ({profile.name} profile)",
            "version": __version__,
        },
        "implementation": {
            "description": f"A FHIR record in one file. It holds: {holdings}.",
            "url": base,
        },
        "fhirVersion": "4.0.1",
        "format": ["json", "application/fhir+json"],
        "rest": [rest],
    }


def largest_page(profile: Profile) -> int:
    """Return the largest `_count` that a server of this profile grants."""
    limit = DEFAULT_LIMITS.page_size
    return min(profile.max_count or limit, limit)


def _resource(
    resource_type: str,
    types: list[str],
    profile: Profile,
    mode: WriteMode,
) -> dict[str, Any]:
    is_writable = mode is not WriteMode.READ_ONLY and resource_type in REQUIRED_ELEMENTS
    interactions = ["read", "vread", "search-type"]
    if is_writable:
        interactions.append("create")
    search_parameters = []
    includes = []
    for name, parameter in sorted(parameters(resource_type).items()):
        search_parameters.append({"name": name, "type": parameter.kind.value})
        if parameter.kind is Kind.REFERENCE:
            includes.append(f"{resource_type}:{name}")
    # The references of the record's types that may have this type as their target.
    reverse_includes = []
    for source in types:
        for parameter in parameters(source).values():
            is_reference = parameter.kind is Kind.REFERENCE
            if is_reference and resource_type in (
                parameter.targets or (resource_type,)
            ):
                reverse_includes.append(f"{source}:{parameter.name}")
    operations = []
    for name, url in OPERATION_DEFINITIONS.get(resource_type, {}).items():
        operations.append({"name": name, "definition": url})
    return {
        "type": resource_type,
        "interaction": _codes(interactions),
        "versioning": "versioned",
        "readHistory": False,
        "conditionalCreate": False,
        "conditionalRead": "full-support",
        "searchParam": [*search_parameters, *_extensions(resource_type, profile)],
        "searchInclude": ["*", *includes],
        "searchRevInclude": ["*", *sorted(reverse_includes)],
        "operation": operations,
    }


def _extensions(resource_type: str, profile: Profile) -> list[dict[str, str]]:
    """Return the parameters that the archqa profile has beside R4's."""
    if not profile.extensions_enabled:
        return []
    extensions = [{"name": "id", "type": "token", "documentation": "read as _id"}]
    if "patient" not in parameters(resource_type):
        documentation = "what the resources of this patient refer to"
        patient = {
            "name": "patient",
            "type": "reference",
            "documentation": documentation,
        }
        extensions.append(patient)
    return extensions


def _codes(codes: list[str]) -> list[dict[str, str]]:
    return [{"code": code} for code in codes]
