"""Problems of a patient, circumstances of life, procedures and immunizations."""

import re
from collections.abc import Iterable
from datetime import timedelta

from archqa.briefing.patient_rows import (
    LineDraft,
    PatientRows,
    SectionDraft,
    code_key,
    draft_of_rows,
    groups_of,
    is_older,
    last_day,
    one_a_day,
    whole_name,
    without_closed,
)
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import row_state, tentative_status
from archqa.query.wording.words import counted, row_status
from archqa.terminology.concepts import related
from archqa.terminology.cues import cue_pattern

MAX_PROBLEMS = 30
RECORDED_AS_ACTIVE = "What the record has as active."
UNKNOWN_WHETHER_ACTIVE = "The record does not say which of these are current."
RESOLVED_WITHIN = timedelta(days=365)
OLD_AFTER_YEARS = 15

MAX_PROCEDURES = 10
MAX_REPEATED = 4
REPEATED_FROM = 5
"""What was done so often is routine: it comes after the others."""

MAX_VACCINES = 12

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
    current: list[Row] = []
    unknown: list[Row] = []
    for row in without_closed(patient, "diagnosis", rows):
        state = row_state("diagnosis", row, patient.now)
        if state == "current":
            current.append(row)
        elif state == "unknown":
            unknown.append(row)
    others = _section(patient, unknown)
    if not current:
        message = (
            f"{UNKNOWN_WHETHER_ACTIVE} {others.message}".strip() if unknown else ""
        )
        return others._replace(message=message)
    draft = _section(patient, current, marks_old=True)
    lines = list(draft.lines)
    for line in others.lines:
        lines.append(line.with_remark("whether it is active is not recorded"))
    return SectionDraft(tuple(lines), f"{RECORDED_AS_ACTIVE} {draft.message}".strip())


def circumstances(patient: PatientRows) -> SectionDraft:
    """Return the active findings on work, education, housing and the like, last recorded when."""
    rows = [row for row in patient.rows("diagnosis") if is_circumstance(row.name)]
    current = []
    for row in without_closed(patient, "diagnosis", rows):
        if row_state("diagnosis", row, patient.now) == "current":
            current.append(row)
    return _section(patient, current, counts=False)


def resolved_problems(patient: PatientRows) -> SectionDraft:
    """Return what was resolved in the last twelve months."""
    since = patient.now - RESOLVED_WITHIN
    rows = []
    for row in patient.rows("diagnosis"):
        ended_lately = (
            row.local_end is not None and since <= row.local_end <= patient.now
        )
        if ended_lately and not is_circumstance(row.name):
            rows.append(row)
    rows.sort(key=lambda row: str(row.local_end), reverse=True)
    lines = []
    for row in rows[:MAX_PROBLEMS]:
        parts = [whole_name(row.name) or "Condition without a name"]
        end = patient.support.date(row, row.end)
        if patient.date(row) != end:
            parts.append(patient.since(row))
        status = "resolved" if "resolved" in row.facts.get("status", ()) else "ended"
        parts.append(f"{status} {end}")
        lines.append(draft_of_rows(", ".join(parts), [row]))
    return SectionDraft(tuple(lines), _further_problems(len(rows)))


def is_circumstance(name: str) -> bool:
    """Whether a condition is a finding on a person's life or its care, not on their health."""
    if not _NO_DISORDER.search(name):
        return False
    return cue_pattern("name", "circumstance").search(name) is not None


def _section(
    patient: PatientRows,
    rows: list[Row],
    *,
    marks_old: bool = False,
    counts: bool = True,
) -> SectionDraft:
    """A line for each code: what is current, then what has likely passed, then what is old."""
    groups = _newest_first(groups_of(rows, code_key))
    groups.sort(key=lambda group: bool(_NO_DISORDER.search(group[0].name)))
    names = [whole_name(group[0].name) for group in groups]
    limit = patient.now.year - OLD_AFTER_YEARS if marks_old else 0
    current: list[LineDraft] = []
    passed: list[LineDraft] = []
    old: list[LineDraft] = []
    for group, name in zip(groups, names, strict=True):
        line = diagnosis_line(patient, group, counts=counts)
        is_old = is_older(group, limit)
        # An acute disorder that was last recorded before the last calendar year.
        is_acute = marks_old and _ACUTE.search(group[-1].name) is not None
        is_past_acute = is_acute and is_older(group, patient.now.year - 1)
        is_superseded = _is_superseded(name, names)
        if is_superseded:
            line = line.with_remark("a further stage is recorded")
        if is_old or is_past_acute:
            line = line.with_remark("never ended in the record")
        if is_old:
            old.append(line)
        elif is_past_acute or is_superseded:
            passed.append(line)
        else:
            current.append(line)
    lines = [*current, *passed, *old][:MAX_PROBLEMS]
    old_count = max(0, len(lines) - len(current) - len(passed))
    messages = (
        old_message(old_count, "recorded", limit),
        _further_problems(len(groups)),
    )
    return SectionDraft(tuple(lines), " ".join(filter(None, messages)))


def old_message(count: int, verb: str, year: int) -> str:
    """Return that some lines are of long ago and come last; empty for none."""
    if not count:
        return ""
    were = counted(
        count, "line, the last of these, was", "lines, the last of these, were"
    )
    return f"{were} last {verb} before {year} and never ended in the record."


def _further_problems(count: int) -> str:
    """What is said of problems beyond those that have a line; empty for none."""
    further = count - MAX_PROBLEMS
    if further <= 0:
        return ""
    return f"{counted(further, 'more is', 'more are')} recorded, of earlier dates."


def _is_superseded(name: str, names: list[str]) -> bool:
    """Whether a higher stage of a condition is among others, or what it leads to."""
    stage = _STAGE.search(name)
    if stage:
        condition = _STAGE.sub("", name)
        stages = []
        for other in names:
            other_stage = _STAGE.search(other)
            if other_stage and _STAGE.sub("", other) == condition:
                stages.append(_stage_number(other_stage[1]))
        return max(stages) > _stage_number(stage[1])
    for earlier, later_names in related("superseded by").items():
        if earlier not in name.casefold():
            continue
        for later in later_names:
            if any(later in other.casefold() for other in names):
                return True
    return False


def _stage_number(stage: str) -> int:
    return int(stage) if stage.isdigit() else _ROMAN.get(stage.casefold(), 0)


def diagnosis_line(
    patient: PatientRows, rows: list[Row], *, counts: bool = True
) -> LineDraft:
    """Return a line with name, dates and severity; `rows` of one code come oldest first.

    What was recorded twice on a day counts once. Where the record has no onset, the dates are those
    of visits.
    """
    rows = one_a_day(rows)
    first, last = rows[0], rows[-1]
    parts = [whole_name(last.name) or "Condition without a name"]
    first_date, last_date = patient.date(first), patient.date(last)
    is_of_visit = bool(first.context_refs)
    if not first_date or not is_of_visit:
        parts.append(patient.since(first))
    elif len(rows) == 1:
        parts.append(f"recorded at the visit of {first_date}")
    if len(rows) > 1:
        if counts:
            parts.append(f"recorded {len(rows)} times")
        if first_date != last_date and is_of_visit:
            parts.append(f"at visits from {first_date} to {last_date}")
        elif first_date != last_date:
            parts.append(f"last on {last_date}")
        elif is_of_visit:
            parts.append(f"at the visit of {first_date}")
    parts += last.facts.get("severity", ())[:1]
    line = draft_of_rows(", ".join(parts), reversed(rows))
    tentative = tentative_status("diagnosis", last)
    return line.with_remark(tentative) if tentative else line


def procedures(patient: PatientRows) -> SectionDraft:
    """Return the last procedures, newest first, then the ones that recur.

    Screenings and questionnaires come after what was done.
    """
    groups = _newest_first(groups_of(patient.rows("procedure"), code_key))
    routine = cue_pattern("name", "routine")
    groups.sort(key=lambda group: bool(routine.search(group[0].name)))
    single: list[list[Row]] = []
    repeated: list[list[Row]] = []
    for group in groups:
        if len(group) < REPEATED_FROM:
            single.append(group)
        else:
            repeated.append(group)
    lines = []
    for group in (*single[:MAX_PROCEDURES], *repeated[:MAX_REPEATED]):
        lines.append(procedure_line(patient, group))
    messages = []
    further = len(groups) - len(lines)
    if further:
        others = counted(further, "other procedure is", "other procedures are")
        messages.append(f"{others} recorded.")
    activities = patient.icu_activities()
    if activities:
        entries = counted(activities, "entry", "entries")
        messages.append(f"{entries} charted in intensive care left out.")
    return SectionDraft(tuple(lines), " ".join(messages))


def procedure_line(patient: PatientRows, rows: list[Row]) -> LineDraft:
    """Return a line with name and last date; of several, with their number and first date."""
    last = rows[-1]
    name = whole_name(last.name) or "Procedure without a name"
    first_date, date = patient.date(rows[0]), patient.date(last)
    if len(rows) == 1:
        text = f"{name} on {date}" if date else f"{name}, date not recorded"
    else:
        text = f"{name}, {len(rows)} times"
        if date:
            text = f"{text}, last on {date}"
        if date and first_date not in ("", date):
            text = f"{text}, first on {first_date}"
    line = draft_of_rows(text, reversed(rows))
    status = row_status(last)
    return line if status in {"", "completed"} else line.with_remark(status)


def immunizations(patient: PatientRows) -> SectionDraft:
    """Return the last immunization with each vaccine, the newest first."""
    groups = _newest_first(groups_of(patient.rows("immunization"), code_key))
    lines = []
    for group in groups[:MAX_VACCINES]:
        row = group[-1]
        name = whole_name(row.name) or "Vaccine without a name"
        date = patient.date(row)
        text = f"{name}, last on {date}" if date else f"{name}, date not recorded"
        lines.append(draft_of_rows(text, [row]))
    further = len(groups) - len(lines)
    others = counted(further, "other vaccine was", "other vaccines were")
    return SectionDraft(tuple(lines), f"{others} given earlier." if further else "")


def _newest_first(groups: Iterable[list[Row]]) -> list[list[Row]]:
    """The groups by their last date, those of one date by name."""
    by_name = sorted(groups, key=lambda group: whole_name(group[0].name))
    return sorted(by_name, key=last_day, reverse=True)
