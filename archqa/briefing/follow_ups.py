"""Follow-ups that notes say: appointments, tests that are due or pending, referrals."""

import re

from archqa.briefing.drafts import SectionDraft
from archqa.briefing.future_dates import names_later_date, names_only_earlier_dates
from archqa.briefing.note_lines import lines_where, quotation, recent_lines
from archqa.briefing.notes import NoteSentence
from archqa.briefing.patient_rows import PatientRows
from archqa.notes.lines import table_cells
from archqa.notes.sections import is_heading_alone
from archqa.query.execution.rows import parse_datetime
from archqa.terminology.cues import cue_pattern

MAX_FOLLOW_UPS = 30

_LOWER_CASE = re.compile(r"[a-zà-ÿ]")
_RESULT = re.compile(r"^[^:]{0,40}\d{1,2}/\d{1,2}[\d/]*[^:\d]{0,20}:.*\d", re.DOTALL)
"""A test with its day and, after a colon, its value: `Repeat 5/16: Cr 0.79`."""

_ENTRY_CELLS = 3
"""A line of so many cells between bars or tabs is a row of a form: `Accession … | Collected …`."""

_MESSAGE = "As written; whether it was done since is not judged."


def follow_ups(patient: PatientRows) -> SectionDraft:
    """Return the lines of the last 24 months that state a plan, newest first, each once."""
    plans = lines_where(patient, recent_lines(patient), is_plan)
    lines = [quotation(line) for line in plans[:MAX_FOLLOW_UPS]]
    message = _MESSAGE if lines else ""
    if len(plans) > len(lines):
        message = f"{message} {len(plans) - len(lines)} earlier ones are left out."
    return SectionDraft(tuple(lines), message)


def is_plan(sentence: NoteSentence) -> bool:
    """Whether a sentence says what is still to be done, or names a day after its note."""
    if _is_entry(sentence.text) or cue_pattern("follow-up", "not open").search(sentence.text):
        return False
    written = parse_datetime(sentence.date)
    day = written.date() if written else None
    if day is not None and names_later_date(sentence.text, day):
        return True
    if not states_plan(sentence.text):
        return False
    is_visit = cue_pattern("follow-up", "visit").search(sentence.text) is not None
    return not (is_visit and day is not None and names_only_earlier_dates(sentence.text, day))


def states_plan(text: str) -> bool:
    """Whether a sentence says what is to be done, and not that it is not needed or was done.

    A heading is none, nor a row of a form, nor a test with its value.
    """
    if not _LOWER_CASE.search(text) or _is_entry(text):
        return False
    plain = " ".join(text.split())
    if cue_pattern("follow-up", "not open").search(plain):
        return False
    rest = cue_pattern("follow-up", "no plan").sub(" ", plain)
    return cue_pattern("follow-up", "plan").search(rest) is not None


def _is_entry(text: str) -> bool:
    """Whether a text is a heading, a row of a form, or a result."""
    is_row = len(table_cells(text)) >= _ENTRY_CELLS
    return is_row or is_heading_alone(text) or _RESULT.search(text) is not None
