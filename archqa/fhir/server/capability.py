"""What this server can do, as a CapabilityStatement. Source: hl7.org/fhir/R4/capabilitystatement.html."""

from typing import Any

import archqa
from archqa.fhir.profile import Profile
from archqa.fhir.values.search_parameters import Kind, parameters
from archqa.fhir.write.validation import REQUIRED_ELEMENTS
from archqa.fhir.write.writer import WriteMode

_DATE = "2026-11-21"
_SPECIAL = {"_id": Kind.TOKEN, "_lastUpdated": Kind.DATE}


def capability_statement(
    base: str, types: list[str], profile: Profile, mode: WriteMode
) -> dict[str, Any]:
    """The CapabilityStatement of a record that holds these types."""
    system = [{"code": "transaction"}, {"code": "batch"}] if mode is WriteMode.APPLY else []
    return {
        "resourceType": "CapabilityStatement",
        "status": "active",
        "date": _DATE,
        "kind": "instance",
        "software": {"name": f"archqa ({profile.name} profile)", "version": archqa.__version__},
        "implementation": {"description": "A FHIR record in one file", "url": base},
        "fhirVersion": "4.0.1",
        "format": ["json", "application/fhir+json"],
        "rest": [
            {
                "mode": "server",
                "resource": [_resource(name, mode) for name in sorted({*types, *_writable(mode)})],
                **({"interaction": system} if system else {}),
                "operation": [{"name": "everything", "definition": _EVERYTHING}],
            }
        ],
    }


_EVERYTHING = "http://hl7.org/fhir/OperationDefinition/Patient-everything"


def _writable(mode: WriteMode) -> list[str]:
    return [] if mode is WriteMode.READ_ONLY else list(REQUIRED_ELEMENTS)


def _resource(name: str, mode: WriteMode) -> dict[str, Any]:
    kinds = {**_SPECIAL, **{each.name: each.kind for each in parameters(name).values()}}
    codes = ["read", "search-type", *(["create"] if name in _writable(mode) else [])]
    references = sorted(each for each, kind in kinds.items() if kind is Kind.REFERENCE)
    return {
        "type": name,
        "interaction": [{"code": code} for code in codes],
        "searchParam": [{"name": each, "type": kind.value} for each, kind in sorted(kinds.items())],
        "searchInclude": [f"{name}:{each}" for each in references],
    }
