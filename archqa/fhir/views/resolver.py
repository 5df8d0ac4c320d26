"""Follows references: from an order to its drug and ingredients, a test to its organisms, a stay to its wards.

Resources are fetched many at a time and remembered.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from archqa.fhir.record import Record, Resource
from archqa.fhir.values.index_values import extract_targets
from archqa.fhir.values.paths import compile_path
from archqa.fhir.values.references import ReferenceTarget, parse_reference

_AT_ONCE = 200
"""Ids in one search: 200 UUIDs make a URL of 7,400 characters, which servers take."""

MEDICATION_NAME = "mimic-medication-name"
"""The end of the identifier system that holds a drug's name in MIMIC-IV on FHIR."""


class Stay(NamedTuple):
    """A stretch of an encounter in one place; either end may be None."""

    location: Resource
    start: str | None
    end: str | None


class Resolver:
    """Follows the references of one record."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._known: dict[ReferenceTarget, Resource | None] = {}

    def resolve(self, reference: str | Any) -> Resource | None:
        """What a reference (its text, or a Reference) names; None if it is not in the record."""
        text = reference.get("reference") if isinstance(reference, dict) else reference
        found = parse_reference(text) if isinstance(text, str) else None
        if found is None or not found.type:
            return None
        if found not in self._known:
            self._known[found] = self._record.get(*found)
        return self._known[found]

    def fetch(self, references: Iterable[Any]) -> None:
        """Get what these References name all at once, to have it when it is asked for."""
        wanted: dict[str, list[str]] = {}
        for reference in references:
            for found in extract_targets(reference):
                if found.type and found not in self._known:
                    self._known[found] = None
                    wanted.setdefault(found.type, []).append(found.id)
        for kind, ids in wanted.items():
            for start in range(0, len(ids), _AT_ONCE):
                part = ",".join(ids[start : start + _AT_ONCE])
                for resource in self._record.search_all(
                    kind, {"_id": part, "_count": str(_AT_ONCE)}
                ):
                    self._known[ReferenceTarget(kind, resource["id"])] = resource

    def at(self, resource: Resource, path: str) -> list[Resource]:
        """What the references at an element name, such as `hasMember`; what is not in the record is left out."""
        references = list(compile_path(path)(resource))
        self.fetch(references)
        return [found for each in references if (found := self.resolve(each)) is not None]

    def medications(self, order: Resource) -> list[Resource]:
        """The drugs of an order: the ingredients of a mix, else the Medication itself; none for a mere code."""
        found = []
        for medication in self.at(order, "medicationReference"):
            found += self.at(medication, "ingredient.itemReference") or [medication]
        return found

    def members(self, observation: Resource) -> list[Resource]:
        """What belongs to a test (`hasMember`): the organisms of a culture, the susceptibilities of an organism."""
        return self.at(observation, "hasMember")

    def sources(self, observation: Resource) -> list[Resource]:
        """What an observation was derived from."""
        return self.at(observation, "derivedFrom")

    def specimen(self, observation: Resource) -> Resource | None:
        """What was tested."""
        return next(iter(self.at(observation, "specimen")), None)

    def whole(self, encounter: Resource) -> Resource | None:
        """The visit that an ICU stay is part of."""
        return next(iter(self.at(encounter, "partOf")), None)

    def stays(self, encounter: Resource) -> list[Stay]:
        """Where the patient was during an encounter, and when, as listed."""
        self.at(encounter, "location.location")
        found = []
        for each in compile_path("location")(encounter):
            place = self.resolve(each.get("location")) if isinstance(each, dict) else None
            if place is not None:
                start, end = (
                    next(iter(compile_path(f"period.{end}")(each)), None)
                    for end in ("start", "end")
                )
                found.append(Stay(place, start, end))
        return found


def display_name(resource: Resource) -> str:
    """What people call a resource: a drug's or ward's name, a code's words; empty if nothing says."""
    for identifier in compile_path("identifier")(resource):
        if isinstance(identifier, dict) and str(identifier.get("system", "")).endswith(
            MEDICATION_NAME
        ):
            return str(identifier.get("value", "")).strip()
    name = resource.get("name")
    if isinstance(name, str):
        return name
    for element in ("code", "type", "vaccineCode", "medicationCodeableConcept"):
        for value in compile_path(element)(resource):
            words = concept_name(value)
            if words:
                return words
    return ""


def concept_name(concept: Any) -> str:
    """The words of a CodeableConcept or Coding: its text, else a display, else a code."""
    if not isinstance(concept, dict):
        return concept if isinstance(concept, str) else ""
    codings = [each for each in concept.get("coding") or [concept] if isinstance(each, dict)]
    words = [
        concept.get("text"),
        *(each.get("display") for each in codings),
        *(each.get("code") for each in codings),
    ]
    return next((word for word in words if isinstance(word, str) and word), "")
