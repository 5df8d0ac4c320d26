"""Procedures that were done: the last ones, and those that are repeated, each on one line."""

from archqa.asking.record_words import counted, row_status
from archqa.briefing.drafts import LineDraft, SectionDraft, draft_of_rows
from archqa.briefing.patient_rows import PatientRows, code_key, groups_of, last_day, whole_name
from archqa.query.execution.rows import Row
from archqa.terminology.cues import cue_pattern

MAX_PROCEDURES = 10
MAX_REPEATED = 4
REPEATED_FROM = 5
"""What was done so often is routine: it comes after the others."""


def procedures(patient: PatientRows) -> SectionDraft:
    """Return the last procedures, newest first, then the ones that recur.

    Screenings and questionnaires come after what was done.
    """
    groups = groups_of(patient.rows("procedure"), code_key)
    groups.sort(key=lambda group: whole_name(group[0].name))
    groups.sort(key=last_day, reverse=True)
    routine = cue_pattern("name", "routine")
    groups.sort(key=lambda group: bool(routine.search(group[0].name)))
    single = [group for group in groups if len(group) < REPEATED_FROM]
    repeated = [group for group in groups if len(group) >= REPEATED_FROM]
    shown = [*single[:MAX_PROCEDURES], *repeated[:MAX_REPEATED]]
    lines = tuple(procedure_line(patient, group) for group in shown)
    return SectionDraft(lines, _message(patient, len(groups) - len(shown)))


def procedure_line(patient: PatientRows, rows: list[Row]) -> LineDraft:
    """Return a line with name and last date; of several, with their number and first date."""
    first, last = rows[0], rows[-1]
    name = whole_name(last.name) or "Procedure without a name"
    date = patient.date(last)
    if len(rows) > 1:
        dates = f"last on {date}" if date else ""
        if date and patient.date(first) not in ("", date):
            dates = f"{dates}, first on {patient.date(first)}"
        text = ", ".join(filter(None, [name, f"{len(rows)} times", dates]))
    else:
        text = f"{name} on {date}" if date else f"{name}, date not recorded"
    status = row_status(last)
    text = text if status in {"", "completed"} else f"{text} ({status})"
    return draft_of_rows(text, reversed(rows))


def _message(patient: PatientRows, rest: int) -> str:
    sentences = []
    if rest:
        sentences.append(f"{counted(rest, 'other procedure is', 'other procedures are')} recorded.")
    left_out = patient.icu_activities()
    if left_out:
        activities = counted(left_out, "entry", "entries")
        sentences.append(f"{activities} charted in intensive care left out.")
    return " ".join(sentences)
