"""What a record holds about one patient, fetched when it is asked for, and kept for the next question."""

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar

from archqa.fhir import CodeCount, Encounters, FhirError, Record, Resolver, Resource
from archqa.fhir.local_record import LocalRecord
from archqa.fhir.values.references import parse_reference
from archqa.fhir.views.encounters import EncounterKind, encounter_kind

_AT_ONCE = 60
"""Codes in one search: with their systems they make a URL of some 6,000 characters, which servers take."""

_KEPT = 64
"""Searches that are kept."""

_MOST = 500
"""Resources of a search that is kept: what is larger is seldom asked for twice."""

Made = TypeVar("Made")


class Stay:
    """One encounter: the ids of the hospital visit and the ICU stay it stands for ("" if there is none)."""

    __slots__ = ("icu", "visit")

    def __init__(self, visit: str = "", icu: str = "") -> None:
        self.visit = visit
        self.icu = icu


class Chart:
    """One patient of a record. Give the same chart to several questions: what one fetched the next one finds.

    What is written to the record meanwhile is not seen; take a new chart then. Safe to use from several threads.
    """

    def __init__(self, record: Record, patient: str) -> None:
        self.record = record
        self.patient = patient.removeprefix("Patient/")
        self.resolver = Resolver(record)
        self.lock = threading.RLock()
        self._found: dict[tuple[str, str], list[Resource]] = {}
        self._codes: dict[str, list[CodeCount]] = {}
        self._made: dict[str, Any] = {}

    @cached_property
    def patient_resource(self) -> Resource | None:
        """The Patient, if there is one."""
        return self.record.get("Patient", self.patient)

    @cached_property
    def encounters(self) -> Encounters:
        """All encounters, oldest first."""
        return Encounters.of(self.record, self.patient)

    @cached_property
    def stays(self) -> Mapping[str, Stay]:
        """By an encounter's id, the hospital visit and ICU stay it stands for."""
        found = {}
        for each in self.encounters.all:
            kind, whole = encounter_kind(each), reference_id(each.get("partOf"))
            own = str(each.get("id"))
            icu = own if kind is EncounterKind.ICU else ""
            found[own] = Stay(own if kind is EncounterKind.HOSPITAL else whole, icu)
        return found

    def codes(self, resource_type: str) -> list[CodeCount]:
        """The codes that the patient's resources of a type have, most frequent first."""
        if resource_type not in self._codes:
            self._codes[resource_type] = self.record.codes(resource_type, self.patient)
        return self._codes[resource_type]

    def search(
        self, resource_type: str, params: Mapping[str, str | list[str]] | None = None
    ) -> list[Resource]:
        """The patient's resources of a type that pass a search."""
        key = (resource_type, repr(params))
        if key in self._found:
            return self._found[key]
        found = list(
            self.record.search_all(resource_type, {"patient": self.patient, **(params or {})})
        )
        if len(found) <= _MOST:
            self._found[key] = found
        if len(self._found) > _KEPT:
            self._found.pop(next(iter(self._found)))
        return found

    def get_or_compute(self, name: str, make: Callable[[], Made]) -> Made:
        """What is made of the patient's resources, made only once. It must not be changed."""
        if name not in self._made:
            self._made[name] = make()
        made: Made = self._made[name]
        return made

    def observations(
        self,
        fits: Callable[[CodeCount], bool],
        names: Iterable[str],
        limits: Mapping[str, str | list[str]],
    ) -> list[Resource]:
        """Observations whose code fits and that pass the limits of a search.

        A record on a server cannot tell its codes without being read as a whole: there, exact `names` are searched by
        their words (search.html#token, `:text`), which finds no fewer.
        """
        wanted = list(names)
        if wanted and not isinstance(self.record, LocalRecord):
            try:
                found = [
                    self.search("Observation", {**limits, "code:text": _escaped(name)})
                    for name in wanted
                ]
                return _once(each for part in found for each in part)
            except FhirError:  # A server that knows no `:text` is asked for every code instead.
                pass
        tokens = [
            f"{_escaped(each.system)}|{_escaped(each.code)}"
            for each in self.codes("Observation")
            if fits(each)
        ]
        tokens = list(dict.fromkeys(tokens))
        parts = [tokens[at : at + _AT_ONCE] for at in range(0, len(tokens), _AT_ONCE)]
        return _once(
            each
            for part in parts
            for each in self.search("Observation", {**limits, "code": ",".join(part)})
        )


class ChartCache:
    """The charts of the patients asked about last, at most `most` of them, of a record that nobody writes to."""

    def __init__(self, record: Record, most: int = 128) -> None:
        self.record = record
        self._most = most
        self._kept: dict[str, Chart] = {}
        self._lock = threading.Lock()

    def of(self, patient: str) -> Chart:
        """The chart of a patient, the one that was given before if it is still kept."""
        with self._lock:
            chart = self._kept.pop(patient, None) or Chart(self.record, patient)
            self._kept[patient] = chart
            while len(self._kept) > self._most:
                self._kept.pop(next(iter(self._kept)))
            return chart


def reference_id(reference: object) -> str:
    """The id a Reference points to; empty if it points nowhere."""
    text = reference.get("reference") if isinstance(reference, dict) else None
    found = parse_reference(text) if isinstance(text, str) else None
    return found.id if found else ""


def _escaped(value: str) -> str:
    """A value in which no sign divides: search.html#escaping."""
    return value.replace("\\", "\\\\").replace("|", "\\|").replace(",", "\\,").replace("$", "\\$")


def _once(resources: Iterable[Resource]) -> list[Resource]:
    return list({str(each.get("id")): each for each in resources}.values())
