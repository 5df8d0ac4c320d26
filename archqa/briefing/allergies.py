"""Allergies and intolerances: as coded, as notes state them, and as diagnoses tell them."""

import re

from archqa.asking.record_words import clean_name
from archqa.briefing.drafts import LineDraft, SectionDraft, draft_of_rows
from archqa.briefing.note_lines import citations_of, quotation, quoted
from archqa.briefing.note_statements import allergy_lines, is_allergic_diagnosis, names_reaction
from archqa.briefing.notes import NoteLine
from archqa.briefing.patient_rows import (
    PatientRows,
    code_key,
    groups_of,
    last_day,
    without_closed,
)
from archqa.briefing.problems import diagnosis_line
from archqa.query.execution.elements import objects_at, text_at
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import tentative_status

MAX_NOTE_LINES = 8
NONE_CODED = "No allergy is coded; diagnoses or notes tell of reactions."

_CRITICALITIES = {"high", "low"}
_WORD = re.compile(r"[^\W\d_]{4,}")
_GENERAL = frozenset({"allergy", "substance", "product", "preparation", "containing", "drug"})


def allergies(patient: PatientRows) -> SectionDraft:
    """Return a line for each substance whose allergy has not ended, the latest first.

    A line of a note that names the substance, with a reaction if one has, stands beside it. Then
    what the record says that there is none, diagnoses of allergic reactions, and what notes state.
    """
    rows = without_closed(patient, "allergy", patient.rows("allergy"))
    groups = groups_of(rows, code_key)
    groups.sort(key=lambda group: clean_name(group[-1].name))
    groups.sort(key=last_day, reverse=True)
    notes = allergy_lines(patient)
    beside = [_note_on(group[-1], notes) for group in groups]
    lines = [_line(patient, group, note) for group, note in zip(groups, beside, strict=True)]
    lines += [_denial(patient, row) for row in patient.denied_allergies()]
    is_coded = bool(lines)
    lines += _diagnoses(patient)
    rest = [note for note in notes if note not in beside]
    lines += [quotation(note) for note in rest[:MAX_NOTE_LINES]]
    message = "" if is_coded or not lines else NONE_CODED
    if len(rest) > MAX_NOTE_LINES:
        message = f"{message} {len(rest) - MAX_NOTE_LINES} earlier lines of notes are left out."
    return SectionDraft(tuple(lines), message.strip())


def _denial(patient: PatientRows, row: Row) -> LineDraft:
    return draft_of_rows(f"{clean_name(row.name)}, {patient.since(row)}", [row])


def _diagnoses(patient: PatientRows) -> list[LineDraft]:
    """The conditions that tell an allergy or an allergic reaction, whether or not they ended."""
    rows = [row for row in patient.rows("diagnosis") if is_allergic_diagnosis(row.name)]
    groups = groups_of(rows, code_key)
    groups.sort(key=last_day, reverse=True)
    return [diagnosis_line(patient, group) for group in groups]


def _note_on(row: Row, notes: list[NoteLine]) -> NoteLine | None:
    """The newest line that names a substance with a reaction, else the newest that names it."""
    words = {word.casefold() for word in _WORD.findall(clean_name(row.name))} - _GENERAL
    naming = [note for note in notes if _names(words, note.text)]
    reacting = [note for note in naming if any(_tells_reaction(words, p.text) for p in note.parts)]
    return next(iter([*reacting, *naming]), None)


def _tells_reaction(words: set[str], text: str) -> bool:
    return _names(words, text) and names_reaction(text)


def _names(words: set[str], text: str) -> bool:
    return not words.isdisjoint(_WORD.findall(text.casefold()))


def _line(patient: PatientRows, rows: list[Row], note: NoteLine | None) -> LineDraft:
    row = rows[-1]
    name = clean_name(row.name) or "Substance without a name"
    text = ", ".join([name, *_details(patient, row), patient.since(row)])
    tentative = tentative_status("allergy", row)
    draft = draft_of_rows(f"{text} ({tentative})" if tentative else text, [row])
    if note is None:
        return draft
    cited = tuple(dict.fromkeys((*draft.citations, *citations_of(note))))
    return draft._replace(text=f"{draft.text}; a note says: {quoted(note)}", citations=cited)


def _details(patient: PatientRows, row: Row) -> list[str]:
    """Reaction, severity and criticality as coded, or that there is no reaction."""
    resource = patient.resource(row)
    reactions = "; ".join(clean_name(text) for text in row.facts.get("reaction", ()))
    severe = [text_at(reaction, "severity") for reaction in objects_at(resource, "reaction")]
    severities = "; ".join(dict.fromkeys(filter(None, severe)))
    criticality = resource.get("criticality")
    parts = [f"reaction: {reactions}" if reactions else "reaction not coded"]
    if severities:
        parts.append(f"severity: {severities}")
    if criticality in _CRITICALITIES:
        parts.append(f"criticality: {criticality}")
    return parts
