"""Follow references: from orders to drugs, from tests to organisms, from visits to wards.

Resources are fetched many at a time and cached.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from archqa.fhir.record import Record, Resource, member_of
from archqa.fhir.values.element_types import is_well_formed
from archqa.fhir.values.element_values import compile_path
from archqa.fhir.values.references import ReferenceTarget, parse_reference_element

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
        if isinstance(reference, str):
            reference = {"reference": reference}
        target = parse_reference_element(reference)
        if target is None or not target.type:
            return None
        if target not in self._cache:
            resource = self._record.get(target.type, target.id)
            is_read = resource is not None and is_well_formed(resource)
            self._cache[target] = resource if is_read else None
        return self._cache[target]

    def fetch(self, references: Iterable[Any]) -> None:
        """Fetch and cache the targets of these References with few searches."""
        ids_by_type: dict[str, list[str]] = {}
        for reference in references:
            target = parse_reference_element(reference)
            if target and target.type and target not in self._cache:
                self._cache[target] = None
                ids = ids_by_type.setdefault(target.type, [])
                ids.append(target.id)
        for resource_type, ids in ids_by_type.items():
            for start in range(0, len(ids), _IDS_PER_SEARCH):
                some_ids = ids[start : start + _IDS_PER_SEARCH]
                params = {"_id": ",".join(some_ids), "_count": str(_IDS_PER_SEARCH)}
                resources = self._record.search_all(resource_type, params)
                for resource in filter(is_well_formed, resources):
                    target = ReferenceTarget(resource_type, resource["id"])
                    self._cache[target] = resource

    def at(self, resource: Resource, path: str) -> list[Resource]:
        """Return the targets in the record of the references at a path, such as `hasMember`."""
        references = list(compile_path(path)(resource))
        self.fetch(references)
        targets = []
        for reference in references:
            target = self.resolve(reference)
            if target is not None:
                targets.append(target)
        return targets

    def specimen(self, observation: Resource) -> Resource | None:
        """Return the specimen of an observation."""
        specimens = self.at(observation, "specimen")
        return specimens[0] if specimens else None

    def stays(self, encounter: Resource) -> list[Stay]:
        """Return the locations of an encounter with start and end, as listed."""
        self.at(encounter, "location.location")
        stays = []
        for entry in compile_path("location")(encounter):
            if not isinstance(entry, dict):
                continue
            location = self.resolve(entry.get("location"))
            if location is None:
                continue
            start = _first_value(entry, "period.start")
            end = _first_value(entry, "period.end")
            stays.append(Stay(location, start, end))
        return stays


def _first_value(node: dict[str, Any], path: str) -> Any:
    values = compile_path(path)(node)
    return values[0] if values else None


_CONCEPT_ELEMENTS = ("code", "type", "vaccineCode", "medicationCodeableConcept")


def display_name(resource: Resource) -> str:
    """Return the name of a drug or ward, or the text of a code; empty if there is none."""
    drug_name = _drug_name(resource)
    if drug_name is not None:
        return drug_name
    name = resource.get("name")
    if isinstance(name, str):
        return name
    for element in _CONCEPT_ELEMENTS:
        for concept in compile_path(element)(resource):
            name = concept_name(concept)
            if name:
                return name
    return ""


def _drug_name(resource: Resource) -> str | None:
    """Return the drug's name from its MIMIC identifier; None without such an identifier."""
    for identifier in compile_path("identifier")(resource):
        if str(member_of(identifier, "system")).endswith(MEDICATION_NAME):
            name = str(identifier.get("value", ""))
            return name.strip()
    return None


def concept_name(concept: Any) -> str:
    """Return the text of a CodeableConcept or Coding, else a display, else a code."""
    if isinstance(concept, str):
        return concept
    if not isinstance(concept, dict):
        return ""
    names = [concept.get("text")]
    codings = concept.get("coding") or [concept]
    for member in ("display", "code"):
        for coding in codings:
            if isinstance(coding, dict):
                names.append(coding.get(member))
    for name in names:
        if isinstance(name, str) and name:
            return name
    return ""
