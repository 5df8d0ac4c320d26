"""Immunizations: of each vaccine the last one."""

from archqa.asking.record_words import counted
from archqa.briefing.drafts import LineDraft, SectionDraft, draft_of_rows
from archqa.briefing.patient_rows import PatientRows, code_key, groups_of, last_day, whole_name
from archqa.query.execution.rows import Row

MAX_VACCINES = 12


def immunizations(patient: PatientRows) -> SectionDraft:
    """Return the last immunization with each vaccine, the newest first."""
    groups = groups_of(patient.rows("immunization"), code_key)
    groups.sort(key=lambda group: whole_name(group[0].name))
    groups.sort(key=last_day, reverse=True)
    lines = tuple(_line(patient, group[-1]) for group in groups[:MAX_VACCINES])
    rest = len(groups) - len(lines)
    more = counted(rest, "other vaccine was", "other vaccines were")
    return SectionDraft(lines, f"{more} given earlier." if rest else "")


def _line(patient: PatientRows, row: Row) -> LineDraft:
    name = whole_name(row.name) or "Vaccine without a name"
    date = patient.date(row)
    return draft_of_rows(f"{name}, last on {date}" if date else f"{name}, date not recorded", [row])
