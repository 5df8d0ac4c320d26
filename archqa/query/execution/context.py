"""The execution of one query: its chart, its conventions, its caveats, and its window and visit.

Classes of encounters: http://terminology.hl7.org/CodeSystem/v3-ActCode (ActEncounterCode) and
v3-RoleCode. In MIMIC-IV on FHIR the identifier says it; there, the class is how the admission began.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from archqa.fhir import Encounters, Resource
from archqa.fhir.views.encounters import EncounterKind, encounter_kind
from archqa.query.conventions import Conventions
from archqa.query.execution.chart import Chart
from archqa.query.execution.elements import (
    element_names,
    elements_at,
    local_time_at,
    objects_at,
    reference_names,
    text_at,
)
from archqa.query.execution.findings import Caveat, CaveatKind, SearchStep
from archqa.query.execution.rows import Row
from archqa.query.execution.time_windows import (
    ALL_TIME,
    Window,
    begun_before,
    cutoff,
    resolve_now,
    resolve_window,
)
from archqa.query.kinds import KINDS
from archqa.query.model import Query
from archqa.query.scope import Visit, When
from archqa.terminology.cues import names_by_code
from archqa.terminology.words import word_list

_MIMIC_CLASSES = {
    EncounterKind.HOSPITAL: "inpatient",
    EncounterKind.ICU: "icu",
    EncounterKind.EMERGENCY: "emergency",
}
_MIMIC_IDENTIFIERS = ("encounter-hosp", "encounter-icu", "encounter-ed")
_ICU_NAME = re.compile(
    r"\b(?:intensive care|critical care)\b|\b(?:[a-z]{0,3}icu|ccu|tsicu|nicu)\b",
    re.IGNORECASE,
)


POSITIONS = {
    "first": 1,
    "second": 2,
    "third": 3,
    "third_to_last": -3,
    "second_to_last": -2,
    "last": -1,
}
"""Counted from 1; from the end, -1 is the last."""


def visit_classes(chart: Chart, encounter: Resource) -> tuple[str, ...]:
    """The classes of an encounter; most have one, a hospital stay with a place in the ICU two."""
    for identifier in objects_at(encounter, "identifier"):
        if text_at(identifier, "system").endswith(_MIMIC_IDENTIFIERS):
            return (_MIMIC_CLASSES[encounter_kind(encounter)],)
    classes: dict[str, None] = {}
    for element in elements_at(encounter, ("class",)):
        name = names_by_code("encounter class").get(text_at(element, "code").upper())
        if name:
            classes[name] = None
    if _is_icu(chart, encounter):
        classes["icu"] = None
    return tuple(classes)


def _is_icu(chart: Chart, encounter: Resource) -> bool:
    """Whether its type, its service or one of its places is an intensive care unit."""
    names: list[str] = []
    for element in elements_at(encounter, ("type", "serviceType")):
        names += element_names(chart, element)
    for reference in objects_at(encounter, "location.location"):
        names += reference_names(chart, reference)
        for location in chart.targets(reference):
            roles = objects_at(location, "type.coding")
            if any(
                text_at(role, "code") in word_list("role of an ICU") for role in roles
            ):
                return True
    return any(_ICU_NAME.search(name) for name in names)


@dataclass
class ExecutionContext:
    """The execution of one query.

    `caveats` and `searched` collect sentences, each once; `steps` how many rows each limit left,
    `left_out` the rows that pass the limits and are no facts, `undecided` those of which the record
    does not say whether their value counts. `now` is the local time of the
    question, `cutoff` the first moment of which rows are left out as later; None if all count.
    """

    query: Query
    chart: Chart
    conventions: Conventions
    caveats: dict[Caveat, None] = field(default_factory=dict)
    searched: dict[str, None] = field(default_factory=dict)
    steps: list[SearchStep] = field(default_factory=list)
    left_out: list[Row] = field(default_factory=list)
    undecided: list[Row] = field(default_factory=list)
    now: datetime | None = field(init=False)
    cutoff: datetime | None = field(init=False)

    def __post_init__(self) -> None:
        self.now = resolve_now(self.query.now, self.conventions)
        self.cutoff = None
        if not KINDS[self.query.what].ahead:
            self.cutoff = cutoff(self.now, self.conventions)

    def warn(self, text: str, kind: CaveatKind = "other") -> None:
        """Record something that the reader of the answer should know."""
        self.caveats[Caveat(text, kind)] = None

    def note_step(self, limit: str, rows: Sequence[Row]) -> None:
        """Record how many rows a limit left."""
        self.steps.append(SearchStep(limit, len(rows)))

    def resolve_scope(self, when: When) -> "Scope":
        """The window and the visit that a `when` means for this patient."""
        window = resolve_window(when.spans, self.now, self.conventions)
        if when.visit is None:
            return Scope(self, window)
        stays = begun_before(self._visits_of(when.visit), self.cutoff)
        if when.visit.which == "any":
            visits = stays.all
        else:
            visit = self._one_visit(stays, when.visit)
            visits = (visit,) if visit is not None else ()
        if not visits:
            self.warn(f"The record has no such visit: {when.visit}.")
        return Scope(self, window, when.visit, visits)

    def _visits_of(self, visit: Visit) -> Encounters:
        """The visits of a kind, oldest first."""
        if visit.kind == "hospital":
            return self.hospital_visits
        if visit.kind == "icu":
            return self.chart.encounters.icu
        contacts = []
        for encounter in self.chart.encounters.all:
            if encounter_kind(encounter) is EncounterKind.ICU:
                continue
            if visit.kind in {"encounter", *visit_classes(self.chart, encounter)}:
                contacts.append(encounter)
        return Encounters(contacts)

    def _one_visit(self, stays: Encounters, visit: Visit) -> Resource | None:
        """The visit at a position in time, or the current one."""
        if visit.position:
            return stays.nth(POSITIONS[visit.position])
        if stays.current is not None or stays.last is None:
            return stays.current
        if self.conventions.current_visit == "without_end":
            return None
        self.warn(
            f"No {visit.noun} is still open: the most recent one stands in for the current one."
        )
        return stays.last

    @property
    def hospital_visits(self) -> Encounters:
        """The hospital visits, oldest first; by the conventions, of inpatients only."""
        if self.conventions.hospital_visits == "all":
            return self.chart.encounters.hospital
        return self.chart.get_or_compute("inpatient visits", self._inpatient_visits)

    def _inpatient_visits(self) -> Encounters:
        """Those in which the patient stayed, or of which the record does not state the class."""
        visits = []
        for visit in self.chart.encounters.hospital.all:
            classes = visit_classes(self.chart, visit)
            if not classes or not {"inpatient", "icu"}.isdisjoint(classes):
                visits.append(visit)
        return Encounters(visits)


class _Stretch(NamedTuple):
    """A visit by its id, start and end."""

    visit_id: str
    start: datetime | None
    end: datetime | None


@dataclass(frozen=True)
class Scope:
    """A window of time, and the visits if some are requested."""

    context: ExecutionContext
    window: Window = ALL_TIME
    requested_visit: Visit | None = None
    visits: Sequence[Resource] = ()

    @property
    def visit_not_found(self) -> bool:
        """Whether the requested visit does not exist."""
        return self.requested_visit is not None and not self.visits

    @property
    def visit_ids(self) -> list[str]:
        """The ids of the requested visits."""
        return [str(visit.get("id")) for visit in self.visits]

    @property
    def icu_stay_ids(self) -> list[str]:
        """The ids of the ICU stays that are the visits or part of them."""
        if self.requested_visit is not None and self.requested_visit.kind == "icu":
            return self.visit_ids
        ids = []
        for visit in self.visits:
            parts = self.context.chart.encounters.icu.within(visit).all
            ids += [str(encounter["id"]) for encounter in parts]
        return ids

    @cached_property
    def _stretches(self) -> list[_Stretch]:
        stretches = []
        for visit in self.visits:
            start = local_time_at(visit, "period.start")
            end = local_time_at(visit, "period.end")
            stretches.append(_Stretch(str(visit.get("id")), start, end))
        return stretches

    def contains(self, row: Row) -> bool:
        """Whether a row belongs to a requested visit, whatever the window."""
        if not row.hospital_visit_id and self.context.conventions.requires_encounter:
            return False
        return any(self._is_within(row, stretch) for stretch in self._stretches)

    def _is_within(self, row: Row, stretch: _Stretch) -> bool:
        stay = self.context.chart.stays[stretch.visit_id]
        if stay.icu_stay_id:
            if row.icu_stay_id:
                return row.icu_stay_id == stretch.visit_id
        elif row.hospital_visit_id and stay.hospital_visit_id == stretch.visit_id:
            return row.hospital_visit_id == stretch.visit_id
        if row.hospital_visit_id not in {"", stay.hospital_visit_id}:
            return False
        # The row names no such visit: its time decides, both ends of the visit included.
        time = row.local_time
        if time is None or stretch.start is None or time < stretch.start:
            return False
        return stretch.end is None or time <= stretch.end


def uses_end_time(query: Query) -> bool:
    """Whether "first" and "in 2147" refer to the end: a discharge, or leaving a unit."""
    return (
        query.returns in {"end_time", "discharge_destination"}
        and KINDS[query.what].stays
    )
