"""Problems of a patient, needs and circumstances of life, procedures and immunizations."""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from archqa.briefing.patient_rows import (
    LineDraft,
    PatientRows,
    SectionDraft,
    code_key,
    draft_of_rows,
    groups_of,
    is_older,
    last_day,
    newest_groups,
    one_a_day,
    says_less,
    whole_name,
    with_one_major,
)
from archqa.query.execution.rows import Coding, Row
from archqa.query.execution.statuses import row_state
from archqa.query.wording.rows import value_text
from archqa.query.wording.words import asserts, counted, denies
from archqa.terminology.code_systems import code_system
from archqa.terminology.concepts import related
from archqa.terminology.cues import cue_pattern

UNKNOWN_WHETHER_ACTIVE = "The record does not say which of these are current."
RECENT = timedelta(days=730)
RESOLVED_WITHIN = timedelta(days=365)
OLD_AFTER_YEARS = 15
OLD_PROCEDURE_YEARS = 5

_ACUTE = re.compile(r"\bacute\b(?! on chronic)", re.IGNORECASE)
_EXTERNAL_CAUSES = {
    "icd10": re.compile(r"V[0-9]|Y8[34]|Y9[239]"),
    "icd9": re.compile(r"E(?:0[0-9]|8[0-4][0-9]|87[89])"),
}
"""Accidents in traffic, places and activities; falls, violence and self-harm are none of them."""

_STAGE = re.compile(r"\bstage (\d|[iv]{1,3})\b", re.IGNORECASE)
_ROMAN = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5}
_NO_DISORDER = re.compile(r"\((?:finding|situation|event|person|social concept)\)$")
"""Semantic tags of SNOMED CT that disorders do not have."""

_TAG = re.compile(r"\([a-z/ ]+\)$")


def active_problems(patient: PatientRows) -> SectionDraft:
    """Return what is active or may be: first what is treated or was dealt with lately.

    Then the others, disorders before findings; last what likely has passed: what was recorded long
    ago, and what a further stage supersedes. Acute disorders of former years that nobody ended are
    only counted. A later row that ended closes the earlier ones of its code.
    """
    rows = _open_diagnoses(patient, are_circumstances=False)
    groups = newest_groups(rows)
    names = [whole_name(group[0].name) for group in groups]
    wishes = cue_pattern("note", "wishes")
    attention = _Attention.of(patient)
    recent_day = (patient.now - RECENT).date().isoformat()
    limit = patient.now.year - OLD_AFTER_YEARS
    states = [row_state("diagnosis", group[-1], patient.now) for group in groups]
    passed = 0
    ranked: list[tuple[int, bool, LineDraft]] = []
    for group, name, state in zip(groups, names, states, strict=True):
        line = diagnosis_line(patient, group)
        if state == "unknown" and "current" in states:
            line = line.with_remark("whether it is active is not recorded")
        is_finding = _NO_DISORDER.search(group[0].name) is not None
        is_chronic = "chronic" in name.casefold()
        is_acute = bool(_ACUTE.search(name)) and not is_chronic
        is_acute = is_acute or is_self_limited(name)
        has_passed = is_older(group, patient.now.year - 1 if is_acute else limit)
        is_superseded = _is_superseded(name, names)
        is_treated = attention.is_treated(group)
        last_mention = max(last_day(group), attention.last_visit(group))
        rank = 2 if has_passed or is_superseded else 1
        if not is_superseded and (is_treated or last_mention >= recent_day):
            rank = 0
        if is_superseded:
            line = line.with_remark("a further stage is recorded")
        elif rank == 2 and is_acute:
            passed += 1
            continue
        elif rank == 2:
            line = line.with_remark("never ended in the record")
        same_day = [whole_name(row.name) for row in rows if row.time == group[-1].time]
        is_minor = says_less(name, same_day) or is_external_cause(group[0].codings)
        is_minor = is_minor or wishes.search(name) is not None  # Among the wishes.
        line = line._replace(is_minor=is_minor)
        ranked.append((rank, is_finding, line))
    ranked.sort(key=lambda entry: entry[:2])
    messages = []
    if states and "current" not in states:
        messages.append(UNKNOWN_WHETHER_ACTIVE)
    if passed:
        acute = counted(passed, "acute disorder", "acute disorders")
        messages.append(f"{acute} of former years without a recorded end left out.")
    return SectionDraft(tuple(line for *_, line in ranked), " ".join(messages))


class _Attention(NamedTuple):
    """Which problems current medicines and visits are for, by code, name or resource."""

    treated: frozenset[object]
    visits: dict[object, str]

    @classmethod
    def of(cls, patient: PatientRows) -> "_Attention":
        treated: set[object] = set()
        for row in patient.rows("medication", "reason"):
            if row_state("medication", row, patient.now) == "current":
                treated |= _reason_keys(row)
        visits: dict[object, str] = {}
        for row in patient.rows("encounter", "reason"):  # The latest visit comes last.
            visits |= dict.fromkeys(_reason_keys(row), last_day([row]))
        return cls(frozenset(treated), visits)

    def is_treated(self, rows: Iterable[Row]) -> bool:
        """Whether a current medicine is for a problem."""
        return not self.treated.isdisjoint(_problem_keys(rows))

    def last_visit(self, rows: Iterable[Row]) -> str:
        """Return the day of the last visit for a problem; empty without one."""
        days = (self.visits.get(key, "") for key in _problem_keys(rows))
        return max(days, default="")


def _reason_keys(row: Row) -> set[object]:
    keys: set[object] = {*row.reason_refs}
    for coding in row.reason_codings:
        keys.add((coding.system, coding.code) if coding.code else coding.display)
    return keys


def _problem_keys(rows: Iterable[Row]) -> set[object]:
    keys: set[object] = set()
    for row in rows:
        keys |= {code_key(row), row.refs[0], *row.names}
    return keys


def is_external_cause(codings: Iterable[Coding]) -> bool:
    """Whether codes of ICD say how an accident came about, where, and at what activity."""
    for coding in codings:
        pattern = _EXTERNAL_CAUSES.get(code_system(coding.system).name)
        if pattern and pattern.match(coding.code):
            return True
    return False


def is_self_limited(name: str) -> bool:
    """Whether what a name says passes by itself: a sprain, a cold."""
    pattern = cue_pattern("name", "self-limited")
    name = name.replace("_", " ")
    return pattern.search(name) is not None and "chronic" not in name.casefold()


def is_circumstance(name: str) -> bool:
    """Whether a condition is on a person's life or its care, not on their health: also a need."""
    if _TAG.search(name) and not _NO_DISORDER.search(name):
        return False
    is_need = cue_pattern("name", "social need").search(name) is not None
    return is_need or cue_pattern("name", "circumstance").search(name) is not None


def social_needs(patient: PatientRows) -> SectionDraft:
    """Return needs that affect the care, such as a home or a way to get there.

    They are conditions, or the last answer to a question: `Housing status: homeless`.
    """
    need = cue_pattern("name", "social need")
    lines = []
    for group in newest_groups(_open_diagnoses(patient, are_circumstances=True)):
        if need.search(group[0].name):
            line = diagnosis_line(patient, group)
            is_old = is_older(group, patient.now.year - RECENT.days // 365)
            lines.append(
                line.with_remark("never ended in the record") if is_old else line
            )
    for group in newest_groups(patient.rows("observation", "value")):
        answer = value_text(group[-1])
        is_affirmed = asserts(answer) == "positive" and need.search(group[-1].name)
        if is_affirmed or (need.search(answer) and not denies(answer)):
            lines.append(patient.line("observation", group[-1:]))
    if patient.is_dead:
        lines = [line._replace(is_minor=True) for line in lines]
    message = ""
    if not lines and _open_diagnoses(patient, are_circumstances=True):
        message = "None recorded; other circumstances are: --sections circumstances."
    return SectionDraft(tuple(lines), message)


def circumstances(patient: PatientRows) -> SectionDraft:
    """Return the active findings on work, education, family and the like, last recorded when."""
    need = cue_pattern("name", "social need")
    lines = []
    for group in newest_groups(_open_diagnoses(patient, are_circumstances=True)):
        if not need.search(group[0].name):
            lines.append(diagnosis_line(patient, group))
    return SectionDraft(tuple(lines))


def _open_diagnoses(patient: PatientRows, *, are_circumstances: bool) -> list[Row]:
    """The diagnoses that have not ended, and that no later row of the same code closes."""
    open_rows: list[Row] = []
    for group in groups_of(patient.rows("diagnosis"), code_key):
        closed_at = datetime.min
        candidates: list[Row] = []
        for row in group:
            state = row_state("diagnosis", row, patient.now)
            if state == "ended" and row.local_time:
                closed_at = max(closed_at, row.local_time)
            is_wanted = is_circumstance(row.name) is are_circumstances
            if state in {"current", "unknown"} and is_wanted:
                candidates.append(row)
        for row in candidates:
            if row.local_time is None or row.local_time >= closed_at:
                open_rows.append(row)
    return open_rows


def resolved_problems(patient: PatientRows) -> SectionDraft:
    """Return what was resolved in the last twelve months, the latest first."""
    since = patient.now - RESOLVED_WITHIN
    rows = []
    for row in patient.rows("diagnosis"):
        has_ended = row.local_end is not None and since <= row.local_end <= patient.now
        if has_ended and not is_circumstance(row.name):
            rows.append(row)
    rows.sort(key=lambda row: str(row.local_end), reverse=True)
    lines = []
    for row in rows:
        same_time = [other.name for other in rows if other.time == row.time]
        is_minor = is_self_limited(row.name) or says_less(row.name, same_time)
        line = patient.line("diagnosis", [row])
        lines.append(line._replace(is_minor=is_minor))
    return SectionDraft(tuple(with_one_major(lines)))


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


def diagnosis_line(patient: PatientRows, rows: list[Row]) -> LineDraft:
    """Return the line of an answer on the first of the rows of one code, and the last date."""
    rows = one_a_day(rows)
    text = patient.line("diagnosis", rows[:1]).text
    first_date, last_date = patient.date(rows[0]), patient.date(rows[-1])
    if first_date != last_date:
        text = f"{text}, recorded {len(rows)} times, last on {last_date}"
    return draft_of_rows(text, reversed(rows))


def procedures(patient: PatientRows) -> SectionDraft:
    """Return the procedures, the last one first; questionnaires and dental care are counted.

    Old ones are minor but for surgery and the like.
    """
    lasting = cue_pattern("name", "lasting")
    limit = patient.now.year - OLD_PROCEDURE_YEARS
    routine = cue_pattern("name", "routine")
    not_routine = cue_pattern("name", "not routine")
    dental = cue_pattern("name", "dental")
    lines = []
    left_out = 0
    rows = list(map(_without_reason_of_visit, patient.rows("procedure", "reason")))
    for group in newest_groups(rows):
        name = group[-1].name
        is_routine = routine.search(name) and not not_routine.search(name)
        if is_routine or dental.search(name):
            left_out += 1
        else:
            is_old = is_older(group, limit) and not lasting.search(name)
            line = procedure_line(patient, group)
            lines.append(line._replace(is_minor=is_old))
    messages = []
    if left_out:
        forms = counted(left_out, "kind", "kinds")
        messages.append(f"{forms} of assessments and dental care left out.")
    if activities := patient.icu_activities():
        entries = counted(activities, "entry", "entries")
        messages.append(f"{entries} charted in intensive care left out.")
    return SectionDraft(tuple(lines), " ".join(messages))


def _without_reason_of_visit(row: Row) -> Row:
    """The row with a reason only if it is its own: its evidence does not hold the visit's."""
    if "reason_of" not in row.facts:
        return row
    facts = {**row.facts, "reason": ()}
    return replace(row, facts=facts, reason_codings=(), reason_refs=())


def procedure_line(patient: PatientRows, rows: list[Row]) -> LineDraft:
    """Return the line of an answer on the last of the rows of one code, and how many there are."""
    text = patient.line("procedure", rows[-1:]).text
    if len(rows) > 1:
        first_date = patient.date(rows[0])
        since = f", the first on {first_date}" if first_date else ""
        text = f"{text}, the last of {len(rows)}{since}"
    return draft_of_rows(text, reversed(rows))


def immunizations(patient: PatientRows) -> SectionDraft:
    """Return the last immunization with each vaccine, the newest first; of the dead minor lines."""
    is_dead = patient.is_dead
    lines = []
    for group in newest_groups(patient.rows("immunization")):
        line = patient.line("immunization", group[-1:])
        lines.append(line._replace(is_minor=is_dead))
    return SectionDraft(tuple(lines))
