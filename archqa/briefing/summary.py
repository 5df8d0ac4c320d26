"""What a patient's record gives a summary: the sections, in their order, with checked lines."""

from collections.abc import Callable, Sequence
from datetime import datetime
from math import ceil
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
    social_needs,
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

PAGE_LINES = 60
"""Lines of a page, with the headings; six are the title and what is not recorded."""

PAGE_WIDTH = 106
"""Characters of a line; a longer one takes several."""


class SectionKind(NamedTuple):
    """A section: its title, what writes its lines, and how many it has on one page.

    `subject` is what is not recorded where it has none. `least` lines stay where all do not fit.
    """

    name: str
    title: str
    write: Callable[[PatientRows], SectionDraft]
    subject: str
    most: int
    least: int = 1
    is_on_request: bool = False
    is_of_notes: bool = False


SECTIONS = (
    SectionKind("person", "The patient", person, "sex and date of birth", 2),
    SectionKind(
        "allergies", "Allergies and intolerances", allergies, "allergies", 8, 4
    ),
    SectionKind(
        "wishes", "Code status, proxy and wishes", wishes, "code status and wishes", 4
    ),
    SectionKind("problems", "Problems", active_problems, "active problems", 12, 8),
    SectionKind(
        "social_needs",
        "Needs that affect care",
        social_needs,
        "needs such as housing or transport",
        4,
        2,
    ),
    SectionKind("medicines", "Medicines", medicines, "medicine orders", 12, 8),
    SectionKind(
        "medicines_in_notes",
        "Medicines in notes without a current order",
        medicines_in_notes,
        "medicines without an order",
        6,
        2,
        is_of_notes=True,
    ),
    SectionKind(
        "medicine_changes",
        "Changes of medicines in notes",
        medicine_changes,
        "changes of medicines",
        4,
        is_of_notes=True,
    ),
    SectionKind(
        "follow_ups",
        "Follow-ups in notes",
        follow_ups,
        "follow-ups",
        5,
        2,
        is_of_notes=True,
    ),
    SectionKind("visits", "Last visits", visits, "visits", 4, 2),
    SectionKind("vital_signs", "Last vital signs", vital_signs, "vital signs", 6, 3),
    SectionKind("labs", "Last results", labs, "laboratory results", 14, 5),
    SectionKind("procedures", "Procedures", procedures, "procedures", 4),
    SectionKind("immunizations", "Immunizations", immunizations, "immunizations", 3),
    SectionKind(
        "resolved",
        "Resolved in the last 12 months",
        resolved_problems,
        "problems resolved in the last 12 months",
        2,
    ),
    SectionKind(
        "circumstances",
        "Circumstances of life",
        circumstances,
        "circumstances of life",
        4,
        is_on_request=True,
    ),
)


class WrittenSection(NamedTuple):
    """A section whose lines their evidence confirms.

    `is_absent` says that nothing is recorded: not where lines were left out or nobody could read
    them.
    """

    kind: SectionKind
    lines: tuple[LineDraft, ...]
    message: str
    is_absent: bool


class RecordSummary(NamedTuple):
    """A patient's summary as the record gives it, and what a model may write it from."""

    patient: dict[str, str]
    now: datetime
    sections: tuple[WrittenSection, ...]
    note_lines: tuple[NoteLine, ...]
    evidence: EvidenceTexts
    remarks: tuple[str, ...]
    has_notes: bool


def chosen_sections(names: Sequence[str] | None) -> tuple[SectionKind, ...]:
    """Return the sections of these names, in the order of a summary; None for those of a page.

    Raises `CallerError` for an unknown name.
    """
    if names is None:
        return tuple(section for section in SECTIONS if not section.is_on_request)
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
    """Return the sections about the patient of this name on one page, each line confirmed.

    A remark says how many lines were left out because their evidence does not confirm them, not
    what they said; the message of a section says how many the page has no room for.
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
        message = draft.message
        if kind.is_of_notes:
            patient.gaps.update(dict.fromkeys(patient.chart.gaps(DOCUMENT_TYPES)))
        remarks += [gap.remark for gap in patient.gaps if gap.remark not in remarks]
        if rejected and not lines:
            message = "What is recorded is not confirmed by what it cites."
        elif patient.gaps and not lines:
            message = unsearched_text(kind.title, tuple(patient.gaps))
        is_absent = not draft.lines and not message
        sections.append(WrittenSection(kind, tuple(lines), message, is_absent))
    return RecordSummary(
        patient=match.as_json,
        now=visit_clock.now,
        sections=_fitted(sections, PAGE_LINES - 6 - len(remarks)),
        note_lines=tuple(notes.recent_lines),
        evidence=evidence,
        remarks=tuple(remarks),
        has_notes=bool(notes.documents),
    )


def _fitted(
    sections: Sequence[WrittenSection], room: int
) -> tuple[WrittenSection, ...]:
    """The sections with as many lines as fit; the last lines of the longest section go first.

    A part of the sections may have more lines than in the summary of all.
    """
    is_whole = len(sections) > 1
    counts = []
    if is_whole:
        sections = list(map(_with_minor_lines_last, sections))
    for section in sections:
        most = section.kind.most if is_whole else PAGE_LINES
        major = [line for line in section.lines if not (is_whole and line.is_minor)]
        counts.append(min(most, len(major)))
    while sum(map(_height, sections, counts)) > room:
        excess = []
        for section, count in zip(sections, counts, strict=True):
            excess.append(count - section.kind.least)
        if max(excess) <= 0:
            break
        counts[excess.index(max(excess))] -= 1
    fitted = []
    for section, count in zip(sections, counts, strict=True):
        message = section.message
        further = len(section.lines) - count
        if further:
            more = counted(further, "more is", "more are")
            if not count:
                more = counted(further, "entry is", "entries are")
            message = f"{message} {more} recorded"
            if not count:
                name = section.kind.name.replace("_", "-")
                message = f"{message}: --sections {name}"
            message = f"{message}.".strip()
        fitted.append(section._replace(lines=section.lines[:count], message=message))
    return tuple(fitted)


def _with_minor_lines_last(section: WrittenSection) -> WrittenSection:
    lines = sorted(section.lines, key=lambda line: line.is_minor)
    return section._replace(lines=tuple(lines))


def _height(section: WrittenSection, count: int) -> int:
    """The lines of a page that a section takes, its heading and message among them."""
    if section.is_absent:
        return 0
    height = 0 if section.kind.name == "person" else 1
    height += ceil(len(section.message) / PAGE_WIDTH)
    if count < len(section.lines) and not section.message:
        height += 1
    for line in section.lines[:count]:
        height += ceil(len(line.text) / PAGE_WIDTH)
    return height
