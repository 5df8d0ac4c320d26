"""Problems of a patient: active ones, those resolved lately, and circumstances of life."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from archqa.asking.record_words import counted
from archqa.briefing.drafts import LineDraft, SectionDraft, draft_of_rows
from archqa.briefing.patient_rows import (
    PatientRows,
    code_key,
    groups_of,
    is_older,
    last_day,
    one_a_day,
    whole_name,
    without_closed,
)
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import tentative_status
from archqa.terminology.concepts import related
from archqa.terminology.cues import cue_pattern

MAX_PROBLEMS = 30
RECORDED_AS_ACTIVE = "What the record has as active."
UNKNOWN_WHETHER_ACTIVE = "The record does not say which of these are current."
RESOLVED_WITHIN = timedelta(days=365)
OLD_AFTER_YEARS = 15

_ACUTE = re.compile(r"\bacute\b(?! on chronic)", re.IGNORECASE)
_STAGE = re.compile(r"\bstage (\d|[iv]{1,3})\b", re.IGNORECASE)
_ROMAN = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5}
_NO_DISORDER = re.compile(r"\((?:finding|situation|event|person|social concept)\)$")
"""Semantic tags of SNOMED CT that disorders do not have."""


def active_problems(patient: PatientRows) -> SectionDraft:
    """Return what is recorded as active: disorders first, then findings, each newest first.

    What was last recorded long ago, acute disorders of former years, and what a further stage
    supersedes, comes after them, then what has no status. Where the record does not say what is
    active, all diagnoses, those of the last visit first. A later row that ended closes the earlier
    ones of its code.
    """
    rows = [row for row in patient.rows("diagnosis") if not is_circumstance(row.name)]
    rows = without_closed(patient, "diagnosis", rows)
    current = [row for row in rows if patient.state("diagnosis", row) == "current"]
    unknown = [row for row in rows if patient.state("diagnosis", row) == "unknown"]
    if not current:
        return _with_message(UNKNOWN_WHETHER_ACTIVE, _section(patient, unknown))
    draft = _with_message(RECORDED_AS_ACTIVE, _section(patient, current, marks_old=True))
    others = [_marked(line) for line in _section(patient, unknown).lines]
    return draft._replace(lines=(*draft.lines, *others))


def _marked(line: LineDraft) -> LineDraft:
    return line._replace(text=f"{line.text} (whether it is active is not recorded)")


def _with_message(message: str, draft: SectionDraft) -> SectionDraft:
    return draft._replace(message=f"{message} {draft.message}".strip()) if draft.lines else draft


def circumstances(patient: PatientRows) -> SectionDraft:
    """Return the active findings on work, education, housing and the like, last recorded when."""
    rows = [row for row in patient.rows("diagnosis") if is_circumstance(row.name)]
    rows = without_closed(patient, "diagnosis", rows)
    rows = [row for row in rows if patient.state("diagnosis", row) == "current"]
    return _section(patient, rows, counts=False)


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
    return bool(_NO_DISORDER.search(name)) and bool(
        cue_pattern("name", "circumstance").search(name)
    )


def _section(
    patient: PatientRows, rows: list[Row], *, marks_old: bool = False, counts: bool = True
) -> SectionDraft:
    groups = groups_of(rows, code_key)
    groups.sort(key=lambda group: whole_name(group[0].name))
    groups.sort(key=last_day, reverse=True)
    groups.sort(key=lambda group: bool(_NO_DISORDER.search(group[0].name)))
    names = [whole_name(group[0].name) for group in groups]
    limit = patient.now.year - OLD_AFTER_YEARS if marks_old else 0
    groups.sort(key=lambda group: _rank(group, names, limit))
    lines = [
        _remarked(diagnosis_line(patient, group, counts=counts), group, names, limit)
        for group in groups
    ]
    old = sum(is_older(group, limit) for group in groups[:MAX_PROBLEMS])
    message = " ".join(filter(None, (old_message(old, "recorded", limit), _rest(lines))))
    return SectionDraft(tuple(lines[:MAX_PROBLEMS]), message)


def old_message(count: int, verb: str, year: int) -> str:
    """Return that some lines are of long ago and come last; empty for none."""
    if not count:
        return ""
    were = counted(count, "line, the last of these, was", "lines, the last of these, were")
    return f"{were} last {verb} before {year} and never ended in the record."


def _rank(rows: list[Row], names: list[str], limit: int) -> int:
    """0 for what is current, 1 for what has likely passed, 2 for what is old."""
    if is_older(rows, limit):
        return 2
    return int(_is_past_acute(rows, limit) or _is_superseded(whole_name(rows[0].name), names))


def _remarked(line: LineDraft, rows: list[Row], names: list[str], limit: int) -> LineDraft:
    if _is_superseded(whole_name(rows[0].name), names):
        line = line._replace(text=f"{line.text} (a further stage is recorded)")
    if is_older(rows, limit) or _is_past_acute(rows, limit):
        line = line._replace(text=f"{line.text} (never ended in the record)")
    return line


def _is_past_acute(rows: list[Row], limit: int) -> bool:
    """Whether an acute disorder was last recorded before the last calendar year."""
    is_acute = _ACUTE.search(rows[-1].name) is not None
    return bool(limit) and is_acute and is_older(rows, limit + OLD_AFTER_YEARS - 1)


def _is_superseded(name: str, names: list[str]) -> bool:
    """Whether a higher stage of a condition is among others, or what it leads to."""
    own = _STAGE.search(name)
    if own:
        same = [other for other in names if _STAGE.sub("", other) == _STAGE.sub("", name)]
        stages = [match[1] for match in map(_STAGE.search, same) if match]
        return any(_stage_number(stage) > _stage_number(own[1]) for stage in stages)
    further: list[str] = []
    for earlier, later in related("superseded by").items():
        if earlier in name.casefold():
            further += later
    return any(later in other.casefold() for later in further for other in names)


def _stage_number(stage: str) -> int:
    return int(stage) if stage.isdigit() else _ROMAN.get(stage.casefold(), 0)


def _rest(lines: list[LineDraft]) -> str:
    rest = len(lines) - MAX_PROBLEMS
    return f"{counted(rest, 'more is', 'more are')} recorded, of earlier dates." if rest > 0 else ""


def diagnosis_line(patient: PatientRows, rows: list[Row], *, counts: bool = True) -> LineDraft:
    """Return a line with name, dates and severity; `rows` of one code come oldest first.

    What was recorded twice on a day counts once.
    """
    rows = one_a_day(rows)
    last = rows[-1]
    name = whole_name(last.name) or "Condition without a name"
    severity = last.facts.get("severity", ())[:1]
    text = ", ".join([name, *_dates(patient, rows, counts=counts), *severity])
    tentative = tentative_status("diagnosis", last)
    return draft_of_rows(f"{text} ({tentative})" if tentative else text, reversed(rows))


def _dates(patient: PatientRows, rows: list[Row], *, counts: bool) -> Iterator[str]:
    """The first onset and the last; the visits where the record has no onset."""
    first, last = patient.date(rows[0]), patient.date(rows[-1])
    is_of_visit = bool(rows[0].context_refs)
    if not first or not is_of_visit:
        yield patient.since(rows[0])
    elif len(rows) == 1:
        yield f"recorded at the visit of {first}"
    if len(rows) > 1:
        if counts:
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
