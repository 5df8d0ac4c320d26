"""A patient's visits: hospital, ICU or emergency department; first, last, n-th, current."""

from collections.abc import Iterable
from enum import StrEnum

from archqa.fhir.record import Record, Resource, member_of
from archqa.fhir.values.dates import LATEST, parse_time_range
from archqa.fhir.values.element_types import is_well_formed
from archqa.fhir.values.element_values import compile_path
from archqa.fhir.values.references import parse_reference_element


class EncounterKind(StrEnum):
    """The kind of visit that an encounter is."""

    HOSPITAL = "hospital"
    ICU = "icu"
    EMERGENCY = "emergency"


_KIND_BY_SYSTEM_SUFFIX = {
    "encounter-hosp": EncounterKind.HOSPITAL,
    "encounter-icu": EncounterKind.ICU,
    "encounter-ed": EncounterKind.EMERGENCY,
}


def encounter_kind(encounter: Resource) -> EncounterKind:
    """Return the kind by the identifier's system (as in MIMIC-IV on FHIR), else by the class.

    MIMIC's class is not enough: a hospital visit that began in the emergency department has class
    EMER too.
    """
    for identifier in compile_path("identifier")(encounter):
        system = str(member_of(identifier, "system"))
        for suffix, kind in _KIND_BY_SYSTEM_SUFFIX.items():
            if system.endswith(suffix):
                return kind
    code = next(iter(compile_path("class.code")(encounter)), None)
    if code == "EMER":
        return EncounterKind.EMERGENCY
    if code == "ACUTE" and "partOf" in encounter:
        return EncounterKind.ICU
    return EncounterKind.HOSPITAL


class Encounters:
    """The encounters of one patient, oldest first, by the wall clock of their start."""

    def __init__(self, encounters: Iterable[Resource]) -> None:
        by_id = sorted(encounters, key=lambda encounter: str(encounter.get("id")))
        by_start = sorted(by_id, key=lambda encounter: _moment(encounter, "start"))
        self.all = tuple(by_start)

    @classmethod
    def of(cls, record: Record, patient: str) -> "Encounters":
        """Fetch the encounters of a patient."""
        encounters = record.search_all("Encounter", {"patient": patient})
        return cls(filter(is_well_formed, encounters))

    def __len__(self) -> int:
        return len(self.all)

    @property
    def hospital(self) -> "Encounters":
        """Hospital visits only."""
        return self.of_kind(EncounterKind.HOSPITAL)

    @property
    def icu(self) -> "Encounters":
        """ICU stays only."""
        return self.of_kind(EncounterKind.ICU)

    def of_kind(self, kind: EncounterKind) -> "Encounters":
        """Return the encounters of one kind."""
        return Encounters(
            encounter for encounter in self.all if encounter_kind(encounter) is kind
        )

    @property
    def first(self) -> Resource | None:
        """The encounter that began first."""
        return self.nth(1)

    @property
    def last(self) -> Resource | None:
        """The encounter that began last."""
        return self.nth(-1)

    def nth(self, number: int) -> Resource | None:
        """Return the n-th encounter from 1; -1 is the last. None if there is no such number."""
        if number == 0 or abs(number) > len(self.all):
            return None
        return self.all[number - 1 if number > 0 else number]

    @property
    def current(self) -> Resource | None:
        """The last encounter without an end; None if all have ended."""
        for encounter in reversed(self.all):
            if _moment(encounter, "end") == LATEST:
                return encounter
        return None

    def within(self, visit: Resource) -> "Encounters":
        """Return the encounters that are part of a visit, such as its ICU stays."""
        parts = []
        for encounter in self.all:
            target = parse_reference_element(encounter.get("partOf"))
            if target is not None and target.id == visit.get("id"):
                parts.append(encounter)
        return Encounters(parts)


def _moment(encounter: Resource, end: str) -> int:
    """Return the start or end in microseconds on the wall clock; `LATEST` if it is absent."""
    text = member_of(encounter.get("period"), end)
    time_range = parse_time_range(text) if isinstance(text, str) else None
    return time_range.low if time_range else LATEST
