"""What a patient's record gives a summary: the sections, in their order, with checked lines."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from math import ceil
from typing import NamedTuple

from archqa.asking.clock import clock
from archqa.asking.patient import find_patient
from archqa.briefing.allergies import allergies, wishes
from archqa.briefing.medicines import medicine_changes, medicines, medicines_in_notes
from archqa.briefing.notes import NoteLine, NoteSentence, patient_notes, quote
from archqa.briefing.patient_rows import (
    LineDraft,
    PatientRows,
    SectionDraft,
    is_older,
    person,
    says_less,
    with_one_major,
)
from archqa.briefing.problems import (
    RESOLVED_WITHIN,
    active_problems,
    circumstances,
    immunizations,
    is_circumstance,
    is_external_cause,
    is_self_limited,
    procedures,
    resolved_problems,
    social_needs,
)
from archqa.briefing.results import labs, vital_signs
from archqa.briefing.verification import EvidenceTexts, confirmed
from archqa.core.near_misses import unknown_name
from archqa.errors import CallerError
from archqa.fhir import Record
from archqa.notes import DOCUMENT_TYPES
from archqa.notes.lines import table_cells
from archqa.notes.sections import is_heading_alone
from archqa.query.execution.rows import Row, parse_datetime
from archqa.query.questions.calendar import MONTHS
from archqa.query.wording.absence import unsearched_text
from archqa.query.wording.words import clean_name, counted, date_text
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
