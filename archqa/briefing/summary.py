"""What a patient's record gives a summary: the sections, and what a model may write them from."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from archqa.asking.clock import clock
from archqa.asking.patient import find_patient
from archqa.briefing.brief_values import Brief, BriefLine, BriefSection
from archqa.briefing.drafts import LineDraft
from archqa.briefing.evidence import EvidenceTexts
from archqa.briefing.note_lines import patient_notes, recent_lines
from archqa.briefing.notes import NoteLine
from archqa.briefing.patient_rows import PatientRows
from archqa.briefing.sections import SectionKind
from archqa.briefing.verification import confirmed
from archqa.fhir import Record

PERFORMER = "queries of the record"


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


def summarize_record(
    record: Record, name: str, now: datetime | None, kinds: Sequence[SectionKind]
) -> RecordSummary:
    """Return the sections about the patient of this name, each line confirmed by its evidence."""
    match = find_patient(record, name)
    asked_at = clock(record, match.id, now, patient=match.resource)
    patient = PatientRows(record, match.id, asked_at.now)
    evidence = EvidenceTexts(patient, patient_notes(patient).sentences)
    written = []
    remarks = [asked_at.remark] if asked_at.remark else []
    for kind in kinds:
        draft = kind.write(patient)
        lines, rejected = confirmed(draft.lines, evidence, patient)
        message = draft.message if lines or not draft.lines else ""
        written.append(WrittenSection(kind, tuple(lines), message))
        if rejected:
            remarks.append(_left_out(rejected, kind))
    return RecordSummary(
        match.as_json,
        asked_at.now,
        tuple(written),
        tuple(recent_lines(patient)),
        evidence,
        tuple(remarks),
    )


def _left_out(count: int, kind: SectionKind) -> str:
    """Return the remark that lines were left out, without what they said."""
    lines = "1 line" if count == 1 else f"{count} lines"
    return f"{lines} of “{kind.title}” left out: what they cite does not confirm them."


def brief_of(summary: RecordSummary, performer: str) -> Brief:
    """Return the summary with its evidence."""
    sections = tuple(_section(section) for section in summary.sections)
    cited = _citations(sections)
    return Brief(
        patient=summary.patient,
        now=summary.now.replace(tzinfo=None).isoformat(timespec="seconds"),
        sections=sections,
        evidence=tuple(summary.evidence.evidence(citation) for citation in cited),
        remarks=summary.remarks,
        performer=performer,
    )


def _section(section: WrittenSection) -> BriefSection:
    lines = [
        BriefLine(text=draft.text, citations=draft.citations, date=draft.date)
        for draft in section.lines
    ]
    message = section.message if lines else section.message or section.kind.empty
    return BriefSection(
        name=section.kind.name, title=section.kind.title, lines=tuple(lines), message=message
    )


def _citations(sections: Iterable[BriefSection]) -> list[str]:
    """The ids of all evidence, in the order of the lines."""
    cited = [
        citation for section in sections for line in section.lines for citation in line.citations
    ]
    return list(dict.fromkeys(cited))
