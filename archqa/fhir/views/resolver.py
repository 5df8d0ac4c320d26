"""Follow references: from orders to drugs, from tests to organisms, from visits to wards.

Resources are fetched many at a time and cached.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from archqa.fhir.record import Record, Resource
from archqa.fhir.values.element_values import extract_targets
from archqa.fhir.values.paths import compile_path
from archqa.fhir.values.references import ReferenceTarget, parse_reference

_IDS_PER_SEARCH = 200
"""200 UUIDs make a URL of 7,400 characters, which servers accept."""

MEDICATION_NAME = "mimic-medication-name"
"""The end of the identifier system that holds a drug's name in MIMIC-IV on FHIR."""


class Stay(NamedTuple):
    """The part of an encounter at one location; start and end may be None."""

    location: Resource
    start: str | None
    end: str | None


class Resolver:
    """Follow the references of one record."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._cache: dict[ReferenceTarget, Resource | None] = {}

    def resolve(self, reference: str | Any) -> Resource | None:
        """Return the target of a reference (text or Reference); None if the record lacks it."""
        text = reference.get("reference") if isinstance(reference, dict) else reference
        target = parse_reference(text) if isinstance(text, str) else None
        if target is None or not target.type:
            return None
        if target not in self._cache:
            self._cache[target] = self._record.get(target.type, target.id)
        return self._cache[target]

    def fetch(self, references: Iterable[Any]) -> None:
        """Fetch and cache the targets of these References with few searches."""
        ids_by_type: dict[str, list[str]] = {}
        for reference in references:
            for target in extract_targets(reference):
                if target.type and target not in self._cache:
                    self._cache[target] = None
                    ids_by_type.setdefault(target.type, []).append(target.id)
        for resource_type, ids in ids_by_type.items():
            for start in range(0, len(ids), _IDS_PER_SEARCH):
                self._fetch_ids(resource_type, ids[start : start + _IDS_PER_SEARCH])

    def _fetch_ids(self, resource_type: str, ids: list[str]) -> None:
        params = {"_id": ",".join(ids), "_count": str(_IDS_PER_SEARCH)}
        for resource in self._record.search_all(resource_type, params):
            self._cache[ReferenceTarget(resource_type, resource["id"])] = resource

    def at(self, resource: Resource, path: str) -> list[Resource]:
        """Return the targets in the record of the references at a path, such as `hasMember`."""
        references = list(compile_path(path)(resource))
        self.fetch(references)
        targets = [self.resolve(reference) for reference in references]
        return [target for target in targets if target is not None]

    def medications(self, order: Resource) -> list[Resource]:
        """Return the drugs of an order: the ingredients of a mix, else the Medication itself.

        Empty for an order with a code only.
        """
        drugs = []
        for medication in self.at(order, "medicationReference"):
            drugs += self.at(medication, "ingredient.itemReference") or [medication]
        return drugs

    def members(self, observation: Resource) -> list[Resource]:
        """Return the `hasMember` of a test: organisms, or susceptibilities of an organism."""
        return self.at(observation, "hasMember")

    def sources(self, observation: Resource) -> list[Resource]:
        """Return the `derivedFrom` of an observation."""
        return self.at(observation, "derivedFrom")

    def specimen(self, observation: Resource) -> Resource | None:
        """Return the specimen of an observation."""
        return next(iter(self.at(observation, "specimen")), None)

    def whole(self, encounter: Resource) -> Resource | None:
        """Return the visit that an ICU stay is part of."""
        return next(iter(self.at(encounter, "partOf")), None)

    def stays(self, encounter: Resource) -> list[Stay]:
        """Return the locations of an encounter with start and end, as listed."""
        self.at(encounter, "location.location")
        stays = []
        for entry in compile_path("location")(encounter):
            location = self.resolve(entry.get("location")) if isinstance(entry, dict) else None
            if location is not None:
                start = next(iter(compile_path("period.start")(entry)), None)
                end = next(iter(compile_path("period.end")(entry)), None)
                stays.append(Stay(location, start, end))
        return stays


_CONCEPT_ELEMENTS = ("code", "type", "vaccineCode", "medicationCodeableConcept")


def display_name(resource: Resource) -> str:
    """Return the name of a drug or ward, or the text of a code; empty if there is none."""
    for identifier in compile_path("identifier")(resource):
        if isinstance(identifier, dict):
            system = str(identifier.get("system", ""))
            if system.endswith(MEDICATION_NAME):
                return str(identifier.get("value", "")).strip()
    name = resource.get("name")
    if isinstance(name, str):
        return name
    for element in _CONCEPT_ELEMENTS:
        for concept in compile_path(element)(resource):
            name = concept_name(concept)
            if name:
                return name
    return ""


def concept_name(concept: Any) -> str:
    """Return the text of a CodeableConcept or Coding, else a display, else a code."""
    if not isinstance(concept, dict):
        return concept if isinstance(concept, str) else ""
    codings = concept.get("coding") or [concept]
    names = [concept.get("text")]
    for member in ("display", "code"):
        names += [coding.get(member) for coding in codings if isinstance(coding, dict)]
    return next((name for name in names if isinstance(name, str) and name), "")
