"""The last visits: when, of what kind, and why; and the follow-ups that notes say."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from archqa.briefing.notes import NoteSentence, patient_notes, quote
from archqa.briefing.patient_rows import (
    LineDraft,
    PatientRows,
    SectionDraft,
    is_older,
    says_less,
    with_one_major,
)
from archqa.briefing.problems import (
    RESOLVED_WITHIN,
    is_circumstance,
    is_external_cause,
    is_self_limited,
)
from archqa.notes.lines import table_cells
from archqa.notes.sections import is_heading_alone
from archqa.query.execution.rows import Row, parse_datetime
from archqa.query.questions.calendar import MONTHS
from archqa.query.wording.words import clean_name, date_text
from archqa.terminology.cues import cue_pattern

_DAY = len("2026-03-12")
_NOTE_TYPES = ("DocumentReference/", "Composition/")
"""Types of notes that people write at a visit; a report is of a test."""

_LOWER_CASE = re.compile(r"[a-zà-ÿ]")
_RESULT = re.compile(r"^[^:]{0,40}\d{1,2}/\d{1,2}[\d/]*[^:\d]{0,20}:.*\d", re.DOTALL)
"""A test with its day and, after a colon, its value: `Repeat 5/16: Cr 0.79`."""

_ENTRY_CELLS = 3
"""A line of so many cells between bars or tabs is a row of a form: `Accession … | Collected …`."""

OLD_AFTER_YEARS = 5
"""A visit so long before the newest one says nothing of today."""

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
    """Return the visits, newest first. Parts of a stay are not visits of their own.

    Among them are recent notes of days for which the record has no visit.
    """
    rows = []
    for row in patient.rows("encounter", "reason"):
        if row.time is not None and not patient.resource(row).get("partOf"):
            rows.append(row)
    rows.sort(key=lambda row: str(row.local_time), reverse=True)
    lines = []
    seen = set()
    limit = patient.now - RESOLVED_WITHIN
    newest_year = rows[0].time.year if rows and rows[0].time else 0
    for row in map(_with_reasons, rows):
        is_past = row.local_time is not None and row.local_time < limit
        is_minor = is_past and _is_for_minor_illness(row)
        is_minor = is_minor or is_older([row], newest_year - OLD_AFTER_YEARS)
        line = patient.line("encounter", [row])
        # What is repeated for one reason, but not in a hospital, is told by its last visit.
        is_inpatient = "ambulatory" not in row.facts.get("class", ())
        key = (row.facts.get("visit_type"), row.facts.get("reason"))
        is_minor = is_minor or (key in seen and bool(key[1]) and not is_inpatient)
        seen.add(key)
        lines.append(line._replace(is_minor=is_minor))
    lines = with_one_major(lines)
    lines += _noted_visits(patient, rows)
    lines.sort(key=lambda line: line.date[:_DAY], reverse=True)
    return SectionDraft(tuple(lines))


def _with_reasons(row: Row) -> Row:
    """The visit without what it records on the patient's life, and without names that say less."""
    external = set()
    for coding in row.reason_codings:
        if is_external_cause([coding]):
            external.add(coding.display)
    reasons: dict[str, str] = {}
    for reason in row.facts.get("reason", ()):
        if reason not in external and not is_circumstance(reason.replace("_", " ")):
            reasons.setdefault(clean_name(reason).casefold(), reason)
    names = list(reasons.values())
    # A program wrote what has underscores; people's words for it stand next to it.
    written = [name for name in names if "_" not in name] or names
    exact = [name for name in written if not says_less(name, written)]
    return replace(row, facts={**row.facts, "reason": tuple(exact)})


def _is_for_minor_illness(row: Row) -> bool:
    """Whether the reasons of a visit are nothing but illness that passes, and care of teeth."""
    dental = cue_pattern("name", "dental")
    reasons = row.facts.get("reason", ())
    return bool(reasons) and all(
        is_self_limited(reason) or dental.search(reason.replace("_", " "))
        for reason in reasons
    )


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
        text = f"{kind} on {day} (known from a note)"
        lines.append(LineDraft(text, (document.name,), document.date))
    return lines


def follow_ups(patient: PatientRows) -> SectionDraft:
    """Return the lines of the last 24 months that state a plan, newest first, each once."""
    notes = patient_notes(patient)
    plans = notes.lines_where(notes.recent_lines, is_plan)
    return SectionDraft(tuple(map(quote, plans)), _AS_WRITTEN if plans else "")


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
