"""`$lastn` and `$everything` the slow way, without any code of archqa.

Written from hl7.org/fhir/R4/observation-operation-lastn.html, encounter-operation-everything.html
and compartmentdefinition-encounter.html.
"""

from datetime import datetime
from typing import Any

from tests.fhir.brute_force import as_list, values
from tests.fhir.brute_force_values import Resource, interval_of_value

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


def last_observations(matches: list[Resource], per_group: int) -> list[set[str]]:
    """The ids of the observations to return, most recent first; those of one time are a set."""
    chosen: list[Resource] = []
    for group in groups_of_codes(matches):
        times = sorted((recency(observation) for observation in group), reverse=True)
        oldest = times[:per_group][-1]
        chosen += [observation for observation in group if recency(observation) >= oldest]
    ranks: dict[Any, set[str]] = {}
    for observation in sorted(chosen, key=recency, reverse=True):
        ranks.setdefault(recency(observation), set()).add(observation["id"])
    return list(ranks.values())


def groups_of_codes(observations: list[Resource]) -> list[list[Resource]]:
    """Join groups that share a code until none do."""
    groups = [([observation], codes(observation)) for observation in observations]
    merged = True
    while merged:
        merged = False
        for index, (members, own) in enumerate(groups):
            for other in groups[index + 1 :]:
                if own & other[1]:
                    members += other[0]
                    own |= other[1]
                    groups.remove(other)
                    merged = True
                    break
    return [members for members, _ in groups]


def codes(observation: Resource) -> set[Any]:
    """System and code of each coding; a concept without codings is its text."""
    concept = observation.get("code", {})
    codings = {(coding.get("system"), coding["code"]) for coding in concept.get("coding", [])}
    return codings or {concept.get("text")}


def recency(observation: Resource) -> tuple[datetime, datetime]:
    """End and start of the effective time; without one an observation is the oldest."""
    stored = values(observation, ["effectiveDateTime", "effectivePeriod"])
    if not stored:
        return datetime.min, datetime.min
    start, end = interval_of_value(stored[0], utc=True)
    return end, start


def everything_of_encounter(resources: list[Resource], encounter: str) -> set[str]:
    """The compartment, and what it refers to; wards, drugs and people bring theirs as well."""
    by_name = {f"{resource['resourceType']}/{resource['id']}": resource for resource in resources}
    own_name = f"Encounter/{encounter}"
    names = {own_name, *(name for name in by_name if is_member(by_name[name], own_name))}
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
    return any(value.get("reference") == encounter_name for value in values(resource, [path]))


def references_in(value: Any) -> set[str]:
    """All references at any depth."""
    if isinstance(value, list):
        return {target for item in value for target in references_in(item)}
    if not isinstance(value, dict):
        return set()
    own = {text for text in as_list(value.get("reference")) if isinstance(text, str)}
    return own.union(*(references_in(member) for member in value.values()))
