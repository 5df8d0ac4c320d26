"""Problems of a patient: active ones, those resolved lately, and circumstances of life."""

import re
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from archqa.asking.record_displays import clean_name
from archqa.asking.record_numbers import counted
from archqa.asking.word_patterns import whole_word_pattern
from archqa.briefing.drafts import LineDraft, SectionDraft, draft_of_rows
from archqa.briefing.patient_rows import PatientRows, code_key, groups_of, last_day
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import tentative_status
from archqa.resources import table_rows

MAX_PROBLEMS = 30
RESOLVED_WITHIN = timedelta(days=365)

_DATA_DIR = Path(__file__).parent / "data"
_NO_DISORDER = re.compile(r"\((?:finding|situation|event|person|social concept)\)$")
"""Semantic tags of SNOMED CT that disorders do not have."""


def active_problems(patient: PatientRows) -> SectionDraft:
    """Return what is recorded as active: disorders first, then findings, each newest first.

    Where the record does not say what is active, all diagnoses, those of the last visit first.
    """
    rows = [row for row in patient.rows("diagnosis") if not is_circumstance(row)]
    current = [row for row in rows if patient.state("diagnosis", row) == "current"]
    if current:
        return _section(patient, current)
    unknown = [row for row in rows if patient.state("diagnosis", row) == "unknown"]
    draft = _section(patient, unknown)
    if not draft.lines:
        return draft
    message = "The record does not say which of these are current."
    return draft._replace(message=f"{message} {draft.message}".strip())


def circumstances(patient: PatientRows) -> SectionDraft:
    """Return the active findings on work, education, housing and the like."""
    rows = [row for row in patient.rows("diagnosis") if is_circumstance(row)]
    return _section(patient, [row for row in rows if patient.state("diagnosis", row) == "current"])


def resolved_problems(patient: PatientRows) -> SectionDraft:
    """Return what was resolved in the last twelve months."""
    since = patient.now - RESOLVED_WITHIN
    rows = [row for row in patient.rows("diagnosis") if _ended_between(row, since, patient.now)]
    rows = [row for row in rows if not is_circumstance(row)]
    rows.sort(key=lambda row: str(row.local_end), reverse=True)
    lines = [_resolved_line(patient, row) for row in rows]
    return SectionDraft(tuple(lines[:MAX_PROBLEMS]), _rest(lines))


def is_circumstance(row: Row) -> bool:
    """Whether a condition is a finding on a person's life and not on their health."""
    return bool(_NO_DISORDER.search(row.name)) and bool(_life_pattern().search(row.name))


def _section(patient: PatientRows, rows: list[Row]) -> SectionDraft:
    groups = groups_of(rows, code_key)
    groups.sort(key=lambda group: clean_name(group[0].name))
    groups.sort(key=last_day, reverse=True)
    groups.sort(key=lambda group: bool(_NO_DISORDER.search(group[0].name)))
    lines = [_line(patient, group) for group in groups]
    return SectionDraft(tuple(lines[:MAX_PROBLEMS]), _rest(lines))


def _rest(lines: list[LineDraft]) -> str:
    rest = len(lines) - MAX_PROBLEMS
    return f"{counted(rest, 'more is', 'more are')} recorded, of earlier dates." if rest > 0 else ""


def _line(patient: PatientRows, rows: list[Row]) -> LineDraft:
    """Since when, and how often it was recorded; `rows` of one code come oldest first."""
    first, last = rows[0], rows[-1]
    name = clean_name(last.name) or "Condition without a name"
    parts = [name, _since(patient, first), *last.facts.get("severity", ())[:1]]
    if len(rows) > 1:
        parts.append(f"recorded {len(rows)} times")
        if patient.date(last) != patient.date(first):
            parts.append(f"last on {patient.date(last)}")
    text = ", ".join(filter(None, parts))
    tentative = tentative_status("diagnosis", last)
    return draft_of_rows(f"{text} ({tentative})" if tentative else text, reversed(rows))


def _since(patient: PatientRows, row: Row) -> str:
    """The onset; the visit at which it was recorded where the record has no onset."""
    date = patient.date(row)
    if not date:
        return "date not recorded"
    return f"recorded at the visit of {date}" if row.context_refs else f"since {date}"


def _resolved_line(patient: PatientRows, row: Row) -> LineDraft:
    name = clean_name(row.name) or "Condition without a name"
    status = "resolved" if "resolved" in row.facts.get("status", ()) else "ended"
    end = patient.support.date(row, row.end)
    start = patient.date(row)
    onset = f"from {start}, " if start and start != end else ""
    return draft_of_rows(f"{name}, {onset}{status} {end}", [row])


def _ended_between(row: Row, since: datetime, now: datetime) -> bool:
    return row.local_end is not None and since <= row.local_end <= now


@cache
def _life_pattern() -> re.Pattern[str]:
    words = "|".join(row[0] for row in table_rows(_DATA_DIR / "circumstances.tsv"))
    pattern = whole_word_pattern(words)
    assert pattern is not None  # The table has rows.
    return pattern
