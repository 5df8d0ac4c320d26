"""A patient's visits: hospital, ICU or emergency department; first, last, n-th, current."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from archqa.fhir.record import Record, Resource
from archqa.fhir.values.dates import LATEST, parse_time_range
from archqa.fhir.values.paths import compile_path
from archqa.fhir.values.references import parse_reference


class EncounterKind(StrEnum):
    """What sort of visit an encounter is."""

    HOSPITAL = "hospital"
    ICU = "icu"
    EMERGENCY = "emergency"


_SUFFIX = {
    "encounter-hosp": EncounterKind.HOSPITAL,
    "encounter-icu": EncounterKind.ICU,
    "encounter-ed": EncounterKind.EMERGENCY,
}


def encounter_kind(encounter: Resource) -> EncounterKind:
    """By the identifier's system, as MIMIC-IV on FHIR tells them apart; else by class, and by being part of a visit.

    MIMIC's class does not tell: a hospital visit that began in the emergency department has class EMER too.
    """
    for identifier in compile_path("identifier")(encounter):
        system = str(identifier.get("system", "")) if isinstance(identifier, dict) else ""
        for suffix, kind in _SUFFIX.items():
            if system.endswith(suffix):
                return kind
    code = next(iter(compile_path("class.code")(encounter)), None)
    if code == "EMER":
        return EncounterKind.EMERGENCY
    return (
        EncounterKind.ICU if code == "ACUTE" and "partOf" in encounter else EncounterKind.HOSPITAL
    )


class Encounters:
    """The encounters of one patient, oldest first, by the wall clock of their start."""

    def __init__(self, encounters: Iterable[Resource]) -> None:
        self.all = tuple(
            sorted(encounters, key=lambda each: (_moment(each, "start"), str(each.get("id"))))
        )

    @classmethod
    def of(cls, record: Record, patient: str) -> "Encounters":
        """Fetch those of a patient."""
        return cls(record.search_all("Encounter", {"patient": patient}))

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

    @property
    def emergency(self) -> "Encounters":
        """Visits to the emergency department only."""
        return self.of_kind(EncounterKind.EMERGENCY)

    def of_kind(self, kind: EncounterKind) -> "Encounters":
        """Encounters of one kind only."""
        return Encounters(each for each in self.all if encounter_kind(each) is kind)

    @property
    def first(self) -> Resource | None:
        """The one that began first."""
        return self.nth(1)

    @property
    def last(self) -> Resource | None:
        """The one that began last."""
        return self.nth(-1)

    def nth(self, number: int) -> Resource | None:
        """The n-th from 1; -1 is the last, -2 the one before. None if there are not so many."""
        at = number - 1 if number > 0 else number
        return self.all[at] if number and -len(self.all) <= at < len(self.all) else None

    @property
    def current(self) -> Resource | None:
        """The last of those without an end; None if every one has ended."""
        still = [each for each in self.all if _moment(each, "end") == LATEST]
        return still[-1] if still else None

    def within(self, visit: Resource) -> "Encounters":
        """Those that are part of a visit, such as its ICU stays."""
        return Encounters(each for each in self.all if _part_of(each) == visit.get("id"))


def _moment(encounter: Resource, end: str) -> int:
    """Microseconds on the wall clock; what is not said is later than everything."""
    period = encounter.get("period")
    said: Any = period.get(end) if isinstance(period, dict) else None
    found = parse_time_range(said) if isinstance(said, str) else None
    return found.low if found else LATEST


def _part_of(encounter: Resource) -> str | None:
    reference = next(iter(compile_path("partOf.reference")(encounter)), None)
    found = parse_reference(reference) if isinstance(reference, str) else None
    return found.id if found else None
