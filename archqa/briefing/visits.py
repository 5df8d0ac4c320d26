"""The last visits: when, of what kind, and why; and the follow-ups that notes say."""

import re
from collections.abc import Iterator
from datetime import date

from archqa.briefing.notes import NoteSentence, patient_notes, quote
from archqa.briefing.patient_rows import (
    MAX_LISTED,
    LineDraft,
    PatientRows,
    SectionDraft,
    whole_name,
)
from archqa.briefing.problems import is_circumstance
from archqa.notes.lines import table_cells
from archqa.notes.sections import is_heading_alone
from archqa.query.execution.elements import concept_name, objects_at, text_at
from archqa.query.execution.rows import Row, parse_datetime
from archqa.query.questions.calendar import MONTHS
from archqa.query.wording.details import most_specific
from archqa.query.wording.words import date_text
from archqa.terminology.cues import cue_pattern

MAX_VISITS = 5
MAX_FOLLOW_UPS = 30

_DAY = len("2026-03-12")
_NOTE_TYPES = ("DocumentReference/", "Composition/")
"""Types of notes that people write at a visit; a report is of a test."""

_LOWER_CASE = re.compile(r"[a-zà-ÿ]")
_RESULT = re.compile(r"^[^:]{0,40}\d{1,2}/\d{1,2}[\d/]*[^:\d]{0,20}:.*\d", re.DOTALL)
"""A test with its day and, after a colon, its value: `Repeat 5/16: Cr 0.79`."""

_ENTRY_CELLS = 3
"""A line of so many cells between bars or tabs is a row of a form: `Accession … | Collected …`."""

_AS_WRITTEN = "As written; whether it was done since is not judged."

_DATES = (
    re.compile(
        r"(?<![\d/.-])(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>(?:19|20|21|22)\d\d)(?!\d)"
    ),
    re.compile(r"(?<![\d/.-])(?P<month>\d{1,2})/(?P<year>(?:19|20|21|22)\d\d)(?!\d)"),
    re.compile(
        r"(?<![\d/.-])(?P<year>(?:19|20|21|22)\d\d)-(?P<month>\d\d)(?:-(?P<day>\d\d))?(?!\d)"
    ),
    re.compile(
        r"\b(?P<name>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
        r"(?: (?P<day>\d{1,2}),?)? (?P<year>(?:19|20|21|22)\d\d)(?!\d)",
        re.IGNORECASE,
    ),
)


def visits(patient: PatientRows) -> SectionDraft:
    """Return the last visits, newest first. Parts of a stay are not visits of their own.

    Among them are recent notes of days for which the record has no visit.
    """
    rows = []
    for row in patient.rows("encounter", "reason"):
        if row.time is not None and not patient.resource(row).get("partOf"):
            rows.append(row)
    rows.sort(key=lambda row: str(row.local_time), reverse=True)
    lines = [_visit_line(patient, row) for row in rows[:MAX_VISITS]]
    lines += _noted_visits(patient, rows)
    lines.sort(key=lambda line: line.date[:_DAY], reverse=True)
    return SectionDraft(tuple(lines))


def _visit_line(patient: PatientRows, row: Row) -> LineDraft:
    """The dates, the type with its class, the reason, and the diagnoses recorded there."""
    encounter = patient.resource(row)
    start, end = patient.date(row), patient.end_date(row)
    dates = f"{start} to {end}" if end else start
    names = map(concept_name, objects_at(encounter, "type"))
    visit_type = next(filter(None, map(whole_name, names)), "Visit")
    text = f"{dates}: {visit_type}"
    visit_class = text_at(encounter, "class.display", "class.code", "class.text")
    if visit_class:
        text = f"{text} ({visit_class})"
    reasons = _reasons(patient, row)
    diagnoses: dict[str, str] = {}
    for reference in row.reason_refs:
        name = concept_name(patient.read(reference).get("code"))
        is_diagnosis = (
            reference.startswith("Condition/") and name and not is_circumstance(name)
        )
        if is_diagnosis and whole_name(name) not in reasons:
            diagnoses[whole_name(name)] = reference
    if reasons:
        text = f"{text}, reason recorded: {'; '.join(most_specific(list(reasons)))}"
    if diagnoses:
        text = f"{text}, diagnoses recorded: {'; '.join(list(diagnoses)[:MAX_LISTED])}"
    if len(diagnoses) > MAX_LISTED:
        text = f"{text} and {len(diagnoses) - MAX_LISTED} more"
    if not reasons and not diagnoses:
        text = f"{text}, reason not recorded"
    visit_date = row.local_time.isoformat() if row.local_time else ""
    citations = dict.fromkeys((row.refs[0], *reasons.values(), *diagnoses.values()))
    return LineDraft(text, tuple(citations), visit_date)


def _reasons(patient: PatientRows, row: Row) -> dict[str, str]:
    """The reasons that the visit itself states, with the resource that names each."""
    encounter = patient.resource(row)
    reasons: dict[str, str] = {}
    for reason in objects_at(encounter, "reasonCode"):
        if name := concept_name(reason):
            reasons[whole_name(name)] = row.refs[0]
    for reason in objects_at(encounter, "reasonReference"):
        reference = text_at(reason, "reference")
        if "/" not in reference:
            continue
        if name := concept_name(patient.read(reference).get("code")):
            reasons[whole_name(name)] = reference
    return reasons


def _noted_visits(patient: PatientRows, rows: list[Row]) -> list[LineDraft]:
    """The last notes of the last 24 months of which the record has no visit."""
    stays: list[tuple[str, str]] = []
    for row in rows:
        first_day = date_text(row.time) if row.time else ""
        stays.append((first_day, date_text(row.end) if row.end else first_day))
    notes = patient_notes(patient)
    lines: list[LineDraft] = []
    for document in reversed(notes.documents):
        if not document.name.startswith(_NOTE_TYPES) or not notes.is_recent(
            document.date
        ):
            continue
        if document.encounter and patient.visit(document.encounter):
            continue
        day = document.date[:_DAY]
        if any(first_day <= day <= final_day for first_day, final_day in stays):
            continue
        kind = ", ".join(filter(None, (document.title or "Note", document.author)))
        text = f"{day}: {kind} (known from a note)"
        lines.append(LineDraft(text, (document.name,), document.date))
    return lines[:MAX_VISITS]


def follow_ups(patient: PatientRows) -> SectionDraft:
    """Return the lines of the last 24 months that state a plan, newest first, each once."""
    notes = patient_notes(patient)
    plans = notes.lines_where(notes.recent_lines, is_plan)
    message = _AS_WRITTEN if plans else ""
    if len(plans) > MAX_FOLLOW_UPS:
        message = f"{message} {len(plans) - MAX_FOLLOW_UPS} earlier ones are left out."
    return SectionDraft(tuple(map(quote, plans[:MAX_FOLLOW_UPS])), message)


def is_plan(sentence: NoteSentence) -> bool:
    """Whether a sentence says what is still to be done, or names a day after its note."""
    text = sentence.text
    if _is_entry(text) or cue_pattern("follow-up", "not open").search(text):
        return False
    written = parse_datetime(sentence.date)
    last_day = max(_days(text), default=None)
    names_past_days = False
    if written and last_day:
        if last_day > written.date():
            return True
        names_past_days = last_day < written.date()
    if not states_plan(text):
        return False
    # A visit that a note names with past days alone has taken place.
    return not (names_past_days and cue_pattern("follow-up", "visit").search(text))


def states_plan(text: str) -> bool:
    """Whether a sentence says what is to be done, and not that it is not needed or was done.

    A heading is none, nor a row of a form, nor a test with its value.
    """
    if not _LOWER_CASE.search(text) or _is_entry(text):
        return False
    plain = " ".join(text.split())
    if cue_pattern("follow-up", "not open").search(plain):
        return False
    possible_plan = cue_pattern("follow-up", "no plan").sub(" ", plain)
    return cue_pattern("follow-up", "plan").search(possible_plan) is not None


def _is_entry(text: str) -> bool:
    """Whether a text is a heading, a row of a form, or a result."""
    is_row = len(table_cells(text)) >= _ENTRY_CELLS
    return is_row or is_heading_alone(text) or _RESULT.search(text) is not None


def _days(text: str) -> Iterator[date]:
    """Yield the first day of each date; what is none in a calendar is left out."""
    for pattern in _DATES:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            name = (parts.get("name") or "").lower()
            month = MONTHS.index(name) + 1 if name else int(parts["month"])
            day = int(parts.get("day") or 1)
            if month > 12 >= day:
                month, day = day, month  # Written with the day first.
            try:
                yield date(int(parts["year"]), month, day)
            except ValueError:
                continue
