"""Allergies and intolerances, with reaction, severity and criticality."""

from archqa.asking.record_displays import clean_name
from archqa.briefing.drafts import LineDraft, SectionDraft, draft_of_rows
from archqa.briefing.patient_rows import PatientRows, code_key, groups_of, last_day
from archqa.query.execution.elements import objects_at, text_at
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import tentative_status

_CRITICALITIES = {"high", "low"}


def allergies(patient: PatientRows) -> SectionDraft:
    """Return a line for each substance whose allergy has not ended, the latest first.

    Then what the record says that there is none: "No known allergies".
    """
    rows = patient.rows("allergy")
    rows = [row for row in rows if patient.state("allergy", row) != "ended"]
    groups = groups_of(rows, code_key)
    groups.sort(key=lambda group: clean_name(group[-1].name))
    groups.sort(key=last_day, reverse=True)
    lines = [_line(patient, group) for group in groups]
    lines += [_denial(patient, row) for row in patient.denied_allergies()]
    return SectionDraft(tuple(lines))


def _denial(patient: PatientRows, row: Row) -> LineDraft:
    return draft_of_rows(f"{clean_name(row.name)}, {patient.since(row)}", [row])


def _line(patient: PatientRows, rows: list[Row]) -> LineDraft:
    row = rows[-1]
    name = clean_name(row.name) or "Substance without a name"
    text = ", ".join([name, *_details(patient, row), patient.since(row)])
    tentative = tentative_status("allergy", row)
    return draft_of_rows(f"{text} ({tentative})" if tentative else text, [row])


def _details(patient: PatientRows, row: Row) -> list[str]:
    """Reaction, severity and criticality as recorded, or that there is no reaction."""
    resource = patient.resource(row)
    reactions = "; ".join(clean_name(text) for text in row.facts.get("reaction", ()))
    severe = [text_at(reaction, "severity") for reaction in objects_at(resource, "reaction")]
    severities = "; ".join(dict.fromkeys(filter(None, severe)))
    criticality = resource.get("criticality")
    parts = [f"reaction: {reactions}" if reactions else "reaction not recorded"]
    if severities:
        parts.append(f"severity: {severities}")
    if criticality in _CRITICALITIES:
        parts.append(f"criticality: {criticality}")
    return parts
