"""Problems of a patient: active ones, those resolved lately, and circumstances of life."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

from archqa.asking.record_numbers import counted
from archqa.asking.word_patterns import whole_word_pattern
from archqa.briefing.drafts import LineDraft, SectionDraft, draft_of_rows
from archqa.briefing.patient_rows import PatientRows, code_key, groups_of, last_day, whole_name
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import tentative_status
from archqa.resources import table_rows

MAX_PROBLEMS = 30
RECORDED_AS_ACTIVE = "What the record has as active."
UNKNOWN_WHETHER_ACTIVE = "The record does not say which of these are current."
RESOLVED_WITHIN = timedelta(days=365)

_DATA_DIR = Path(__file__).parent / "data"
_NO_DISORDER = re.compile(r"\((?:finding|situation|event|person|social concept)\)$")
"""Semantic tags of SNOMED CT that disorders do not have."""


def active_problems(patient: PatientRows) -> SectionDraft:
    """Return what is recorded as active: disorders first, then findings, each newest first.

    What has no status comes after it. Where the record does not say what is active, all
    diagnoses, those of the last visit first.
    """
    rows = [row for row in patient.rows("diagnosis") if not is_circumstance(row.name)]
    current = [row for row in rows if patient.state("diagnosis", row) == "current"]
    unknown = [row for row in rows if patient.state("diagnosis", row) == "unknown"]
    if not current:
        return _with_message(UNKNOWN_WHETHER_ACTIVE, _section(patient, unknown))
    draft = _with_message(RECORDED_AS_ACTIVE, _section(patient, current))
    others = [_marked(line) for line in _section(patient, unknown).lines]
    return draft._replace(lines=(*draft.lines, *others))


def _marked(line: LineDraft) -> LineDraft:
    return line._replace(text=f"{line.text} (whether it is active is not recorded)")


def _with_message(message: str, draft: SectionDraft) -> SectionDraft:
    return draft._replace(message=f"{message} {draft.message}".strip())


def circumstances(patient: PatientRows) -> SectionDraft:
    """Return the active findings on work, education, housing and the like."""
    rows = [row for row in patient.rows("diagnosis") if is_circumstance(row.name)]
    return _section(patient, [row for row in rows if patient.state("diagnosis", row) == "current"])


def resolved_problems(patient: PatientRows) -> SectionDraft:
    """Return what was resolved in the last twelve months."""
    since = patient.now - RESOLVED_WITHIN
    rows = [row for row in patient.rows("diagnosis") if _ended_between(row, since, patient.now)]
    rows = [row for row in rows if not is_circumstance(row.name)]
    rows.sort(key=lambda row: str(row.local_end), reverse=True)
    lines = [_resolved_line(patient, row) for row in rows]
    return SectionDraft(tuple(lines[:MAX_PROBLEMS]), _rest(lines))


def is_circumstance(name: str) -> bool:
    """Whether a condition is a finding on a person's life or its care, not on their health."""
    return bool(_NO_DISORDER.search(name)) and bool(_life_pattern().search(name))


def _section(patient: PatientRows, rows: list[Row]) -> SectionDraft:
    groups = groups_of(rows, code_key)
    groups.sort(key=lambda group: whole_name(group[0].name))
    groups.sort(key=last_day, reverse=True)
    groups.sort(key=lambda group: bool(_NO_DISORDER.search(group[0].name)))
    lines = [_line(patient, group) for group in groups]
    return SectionDraft(tuple(lines[:MAX_PROBLEMS]), _rest(lines))


def _rest(lines: list[LineDraft]) -> str:
    rest = len(lines) - MAX_PROBLEMS
    return f"{counted(rest, 'more is', 'more are')} recorded, of earlier dates." if rest > 0 else ""


def _line(patient: PatientRows, rows: list[Row]) -> LineDraft:
    """Name, dates and severity; `rows` of one code come oldest first."""
    last = rows[-1]
    name = whole_name(last.name) or "Condition without a name"
    severity = last.facts.get("severity", ())[:1]
    text = ", ".join([name, *_dates(patient, rows), *severity])
    tentative = tentative_status("diagnosis", last)
    return draft_of_rows(f"{text} ({tentative})" if tentative else text, reversed(rows))


def _dates(patient: PatientRows, rows: list[Row]) -> Iterator[str]:
    """The first onset and the last; the visits where the record has no onset."""
    first, last = patient.date(rows[0]), patient.date(rows[-1])
    is_of_visit = bool(rows[0].context_refs)
    if not first or not is_of_visit:
        yield patient.since(rows[0])
    elif len(rows) == 1:
        yield f"recorded at the visit of {first}"
    if len(rows) > 1:
        yield f"recorded {len(rows)} times"
        if first != last:
            yield f"at visits from {first} to {last}" if is_of_visit else f"last on {last}"
        elif is_of_visit:
            yield f"at the visit of {first}"


def _resolved_line(patient: PatientRows, row: Row) -> LineDraft:
    name = whole_name(row.name) or "Condition without a name"
    status = "resolved" if "resolved" in row.facts.get("status", ()) else "ended"
    end = patient.support.date(row, row.end)
    start = patient.date(row)
    parts = [name, patient.since(row) if start != end else "", f"{status} {end}"]
    return draft_of_rows(", ".join(filter(None, parts)), [row])


def _ended_between(row: Row, since: datetime, now: datetime) -> bool:
    return row.local_end is not None and since <= row.local_end <= now


@cache
def _life_pattern() -> re.Pattern[str]:
    words = "|".join(row[0] for row in table_rows(_DATA_DIR / "circumstances.tsv"))
    pattern = whole_word_pattern(words)
    assert pattern is not None  # The table has rows.
    return pattern
