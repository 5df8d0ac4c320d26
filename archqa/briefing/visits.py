"""The last visits: when, of what kind, and why."""

from collections.abc import Iterator, Sequence

from archqa.asking.record_details import most_specific
from archqa.asking.record_words import date_text
from archqa.briefing.drafts import LineDraft, SectionDraft
from archqa.briefing.note_lines import is_recent, patient_notes
from archqa.briefing.patient_rows import PatientRows, whole_name
from archqa.briefing.problems import is_circumstance
from archqa.briefing.verification import MAX_LISTED
from archqa.notes.documents import Document
from archqa.query.execution.elements import concept_name, objects_at, text_at
from archqa.query.execution.rows import Row

MAX_VISITS = 5

_DAY = len("2026-03-12")
_NOTE_TYPES = ("DocumentReference/", "Composition/")
"""Types of notes that people write at a visit; a report is of a test."""


def visits(patient: PatientRows) -> SectionDraft:
    """Return the last visits, newest first. Parts of a stay are not visits of their own.

    Among them are recent notes of days for which the record has no visit.
    """
    rows = [row for row in patient.rows("encounter", "reason") if _is_whole(patient, row)]
    rows.sort(key=lambda row: str(row.local_time), reverse=True)
    lines = [_line(patient, row) for row in rows[:MAX_VISITS]]
    lines += _noted_visits(patient, rows)
    lines.sort(key=lambda line: line.date[:_DAY], reverse=True)
    return SectionDraft(tuple(lines))


def _noted_visits(patient: PatientRows, rows: Sequence[Row]) -> list[LineDraft]:
    """The last notes of the last 24 months of which the record has no visit."""
    documents = [
        document
        for document in reversed(patient_notes(patient).documents)
        if document.name.startswith(_NOTE_TYPES) and is_recent(document.date, patient.now)
    ]
    lines = [_noted_line(each) for each in documents if not _has_visit(patient, each, rows)]
    return lines[:MAX_VISITS]


def _noted_line(document: Document) -> LineDraft:
    kind = ", ".join(filter(None, (document.title or "Note", document.author)))
    text = f"{document.date[:_DAY]}: {kind} (known from a note)"
    return LineDraft(text, (document.name,), document.date)


def _has_visit(patient: PatientRows, document: Document, rows: Sequence[Row]) -> bool:
    """Whether a note refers to a visit of the record, or is of a day of one."""
    if document.encounter and patient.visit(document.encounter):
        return True
    day = document.date[:_DAY]
    return any(_first_day(row) <= day <= _last_day(row) for row in rows)


def _first_day(row: Row) -> str:
    return date_text(row.time) if row.time else ""


def _last_day(row: Row) -> str:
    return date_text(row.end) if row.end else _first_day(row)


def _is_whole(patient: PatientRows, row: Row) -> bool:
    return row.time is not None and not patient.resource(row).get("partOf")


def _line(patient: PatientRows, row: Row) -> LineDraft:
    """The dates, the type with its class, the reason, and the diagnoses recorded there."""
    start, end = patient.date(row), patient.end_date(row)
    kind = _kind(patient, row)
    visit_class = _class(patient, row)
    text = f"{start} to {end}" if end else start
    text = f"{text}: {kind} ({visit_class})" if visit_class else f"{text}: {kind}"
    reasons = dict(_reasons(patient, row))
    diagnoses = {name: ref for name, ref in _diagnoses(patient, row) if name not in reasons}
    if reasons:
        text = f"{text}, reason recorded: {'; '.join(most_specific(list(reasons)))}"
    if diagnoses:
        text = f"{text}, diagnoses recorded: {_first_of(list(diagnoses))}"
    if not reasons and not diagnoses:
        text = f"{text}, reason not recorded"
    date = row.local_time.isoformat() if row.local_time else ""
    citations = dict.fromkeys((row.refs[0], *reasons.values(), *diagnoses.values()))
    return LineDraft(text, tuple(citations), date)


def _first_of(names: list[str]) -> str:
    rest = len(names) - MAX_LISTED
    shown = "; ".join(names[:MAX_LISTED])
    return f"{shown} and {rest} more" if rest > 0 else shown


def _kind(patient: PatientRows, row: Row) -> str:
    """The type as recorded; a record may only have a class."""
    types = objects_at(patient.resource(row), "type")
    return next(filter(None, map(whole_name, map(concept_name, types))), "Visit")


def _class(patient: PatientRows, row: Row) -> str:
    """The class as recorded."""
    encounter = patient.resource(row)
    return text_at(encounter, "class.display", "class.code", "class.text")


def _reasons(patient: PatientRows, row: Row) -> Iterator[tuple[str, str]]:
    """The reasons that the visit itself states, with the resource that names each."""
    encounter = patient.resource(row)
    for reason in objects_at(encounter, "reasonCode"):
        if concept_name(reason):
            yield whole_name(concept_name(reason)), row.refs[0]
    for reason in objects_at(encounter, "reasonReference"):
        reference = text_at(reason, "reference")
        name = concept_name(patient.read(reference).get("code")) if "/" in reference else ""
        if name:
            yield whole_name(name), reference


def _diagnoses(patient: PatientRows, row: Row) -> Iterator[tuple[str, str]]:
    """The conditions that were recorded at the visit, by name."""
    for reference in row.reason_refs:
        name = concept_name(patient.read(reference).get("code"))
        if reference.startswith("Condition/") and name and not is_circumstance(name):
            yield whole_name(name), reference
