"""What a patient's record gives a summary: the sections, in their order, with checked lines."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from archqa.asking.clock import clock
from archqa.asking.patient import find_patient
from archqa.briefing.allergies import allergies, wishes
from archqa.briefing.medicines import medicine_changes, medicines, medicines_in_notes
from archqa.briefing.notes import NoteLine, patient_notes
from archqa.briefing.patient_rows import LineDraft, PatientRows, SectionDraft, person
from archqa.briefing.problems import (
    active_problems,
    circumstances,
    immunizations,
    procedures,
    resolved_problems,
)
from archqa.briefing.results import labs, vital_signs
from archqa.briefing.verification import EvidenceTexts, confirmed
from archqa.briefing.visits import follow_ups, visits
from archqa.core.near_misses import unknown_name
from archqa.errors import CallerError
from archqa.fhir import Record
from archqa.notes import DOCUMENT_TYPES
from archqa.query.wording.absence import unsearched_text
from archqa.query.wording.words import counted


class SectionKind(NamedTuple):
    """A section: its title, what writes its lines, and what is said where there are none."""

    name: str
    title: str
    write: Callable[[PatientRows], SectionDraft]
    empty: str


SECTIONS = (
    SectionKind(
        "person", "The patient", person, "Neither sex nor date of birth is recorded."
    ),
    SectionKind(
        "allergies", "Allergies and intolerances", allergies, "No allergy is recorded."
    ),
    SectionKind(
        "wishes",
        "Code status, proxy and wishes",
        wishes,
        "No such statement was found.",
    ),
    SectionKind(
        "problems", "Problems", active_problems, "No active problem is recorded."
    ),
    SectionKind(
        "medicines", "Current medicines", medicines, "No medicine is recorded."
    ),
    SectionKind(
        "medicines_in_notes",
        "Medicines in notes without a current order",
        medicines_in_notes,
        "None was found in a list of medicines of the notes of the last 24 months.",
    ),
    SectionKind(
        "medicine_changes",
        "Changes of medicines said in notes",
        medicine_changes,
        "No change of a medicine was found in the notes of the last 24 months.",
    ),
    SectionKind(
        "follow_ups",
        "Follow-ups said in notes",
        follow_ups,
        "No follow-up was found in the notes of the last 24 months.",
    ),
    SectionKind("visits", "Last visits", visits, "No visit is recorded."),
    SectionKind(
        "vital_signs", "Last vital signs", vital_signs, "No vital sign is recorded."
    ),
    SectionKind(
        "labs", "Last laboratory results", labs, "No laboratory result is recorded."
    ),
    SectionKind("procedures", "Procedures", procedures, "No procedure is recorded."),
    SectionKind(
        "immunizations", "Immunizations", immunizations, "No immunization is recorded."
    ),
    SectionKind(
        "resolved",
        "Resolved in the last 12 months",
        resolved_problems,
        "No problem is recorded as resolved in the last 12 months.",
    ),
    SectionKind(
        "circumstances",
        "Circumstances recorded as findings",
        circumstances,
        "No such finding is recorded as active.",
    ),
)


_OF_NOTES = frozenset(
    {"wishes", "medicines_in_notes", "medicine_changes", "follow_ups"}
)
"""Sections that are empty where the notes have nothing."""


class WrittenSection(NamedTuple):
    """A section whose lines their evidence confirms."""

    kind: SectionKind
    lines: tuple[LineDraft, ...]
    message: str


class RecordSummary(NamedTuple):
    """A patient's summary as the record gives it, and what a model may write it from."""

    patient: dict[str, str]
    now: datetime
    sections: tuple[WrittenSection, ...]
    note_lines: tuple[NoteLine, ...]
    evidence: EvidenceTexts
    remarks: tuple[str, ...]


def chosen_sections(names: Sequence[str] | None) -> tuple[SectionKind, ...]:
    """Return the sections of these names, in the order of a summary; all of them for None.

    Raises `CallerError` for an unknown name.
    """
    if names is None:
        return SECTIONS
    known = [section.name for section in SECTIONS]
    wanted = {name.strip().replace("-", "_"): None for name in names}
    if not wanted:
        raise CallerError(f"No section is named.\nThere are: {', '.join(known)}.")
    for name in wanted:
        if name not in known:
            raise unknown_name("section", name, known)
    return tuple(section for section in SECTIONS if section.name in wanted)


def summarize_record(
    record: Record, name: str, now: datetime | None, kinds: Sequence[SectionKind]
) -> RecordSummary:
    """Return the sections about the patient of this name, each line confirmed by its evidence.

    A remark says how many lines were left out, not what they said.
    """
    match = find_patient(record, name)
    visit_clock = clock(record, match.id, now, patient=match.resource)
    patient = PatientRows(record, match.id, visit_clock.now)
    notes = patient_notes(patient)
    evidence = EvidenceTexts(patient, notes.sentences)
    sections = []
    remarks = [visit_clock.remark] if visit_clock.remark else []
    for kind in kinds:
        patient.gaps.clear()
        draft = kind.write(patient)
        lines = confirmed(draft.lines, evidence, patient)
        rejected = len(draft.lines) - len(lines)
        if rejected:
            left_out = counted(rejected, "line", "lines")
            remarks.append(
                f"{left_out} of “{kind.title}” left out: what they cite does not confirm them."
            )
        message = draft.message if lines or not draft.lines else ""
        if kind.name in _OF_NOTES:
            patient.gaps.update(dict.fromkeys(patient.chart.gaps(DOCUMENT_TYPES)))
        remarks += [gap.remark for gap in patient.gaps if gap.remark not in remarks]
        if patient.gaps and not lines:
            message = unsearched_text(kind.title, tuple(patient.gaps))
        sections.append(WrittenSection(kind, tuple(lines), message))
    return RecordSummary(
        patient=match.as_json,
        now=visit_clock.now,
        sections=tuple(sections),
        note_lines=tuple(notes.recent_lines),
        evidence=evidence,
        remarks=tuple(remarks),
    )
