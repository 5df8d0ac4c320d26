"""`$everything` the slow way, without any code of archqa.

Written from hl7.org/fhir/R4/encounter-operation-everything.html and
compartmentdefinition-encounter.html.
"""

from typing import Any

from tests.fhir.brute_force import as_list, values
from tests.fhir.brute_force_values import Resource

ENCOUNTER_COMPARTMENT = {
    "CarePlan": "encounter",
    "Claim": "item.encounter",
    "Condition": "encounter",
    "DocumentReference": "context.encounter",
    "MedicationAdministration": "context",
    "MedicationRequest": "encounter",
    "Observation": "encounter",
    "Procedure": "encounter",
}
"""Of the types in the tests those that are in the compartment: a Flag is not, nor a dispense."""

TYPES_OF_NO_PATIENT = {"Location", "Medication", "Organization", "Practitioner"}


def everything_of_encounter(resources: list[Resource], encounter: str) -> set[str]:
    """The compartment, and what it refers to; wards, drugs and people bring theirs as well."""
    by_name = {
        f"{resource['resourceType']}/{resource['id']}": resource
        for resource in resources
    }
    own_name = f"Encounter/{encounter}"
    names = {
        own_name,
        *(name for name in by_name if is_member(by_name[name], own_name)),
    }
    new = set(names)
    while new:
        targets = {target for name in new for target in references_in(by_name[name])}
        latest = {target for target in targets if target in by_name} - names
        names |= latest
        new = {name for name in latest if name.partition("/")[0] in TYPES_OF_NO_PATIENT}
    return names


def is_member(resource: Resource, encounter_name: str) -> bool:
    path = ENCOUNTER_COMPARTMENT.get(resource["resourceType"])
    if path is None:
        return False
    return any(
        value.get("reference") == encounter_name for value in values(resource, [path])
    )


def references_in(value: Any) -> set[str]:
    """All references at any depth."""
    if isinstance(value, list):
        return {target for item in value for target in references_in(item)}
    if not isinstance(value, dict):
        return set()
    own = {text for text in as_list(value.get("reference")) if isinstance(text, str)}
    return own.union(*(references_in(member) for member in value.values()))
