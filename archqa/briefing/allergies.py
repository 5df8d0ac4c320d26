"""Allergies and intolerances as coded, stated in notes or told by diagnoses; a patient's wishes."""

import re

from archqa.briefing.notes import (
    NoteLine,
    patient_notes,
    quote,
    with_note,
)
from archqa.briefing.patient_rows import (
    LineDraft,
    PatientRows,
    SectionDraft,
    code_key,
    draft_of_rows,
    groups_of,
    newest_groups,
)
from archqa.briefing.problems import diagnosis_line, procedure_line
from archqa.notes.sections import section_kind, section_label
from archqa.query.execution.rows import Row
from archqa.query.execution.statuses import row_state
from archqa.query.wording.allergies import denial_text
from archqa.query.wording.words import clean_name
from archqa.terminology.concepts import find_concepts
from archqa.terminology.cues import cue_pattern
from archqa.terminology.words import word_list

NONE_CODED = "No allergy is coded; diagnoses or notes tell of reactions."

_WORD = re.compile(r"[^\W\d_]{4,}")
_GENERAL = word_list("allergy general")
_ALLERGY = re.compile(r"[ -]allerg(?:y|ies)\b", re.IGNORECASE)
"""After the name of a drug: `ceftriaxone allergy`."""


def allergies(patient: PatientRows) -> SectionDraft:
    """Return a line for each substance, the latest first, those whose allergy has ended last.

    It ends with a line of a note that names the substance, with a reaction if one has. Then what
    the record says that there is none, diagnoses of allergic reactions, and what notes state.
    """
    written = patient_notes(patient)
    lines_of_patient = written.lines_where(written.authored_lines, lambda _: True)
    notes = list(filter(is_allergy_line, lines_of_patient))
    groups = newest_groups(patient.rows("allergy"))
    groups.sort(
        key=lambda group: row_state("allergy", group[-1], patient.now) == "ended"
    )
    lines: list[LineDraft] = []
    quoted: list[NoteLine] = []
    for group in groups:
        note = _note_on(group[-1], notes)
        if note is not None:
            quoted.append(note)
        line = patient.line("allergy", group[-1:])
        lines.append(with_note(line, "a note says", note))
    for row in patient.denied_allergies():
        lines.append(draft_of_rows(denial_text(row, patient.support), [row]))
    is_coded = bool(lines)
    # Conditions that tell an allergy or an allergic reaction, whether or not they ended.
    cue = cue_pattern("allergy", "diagnosis")
    diagnoses = [row for row in patient.rows("diagnosis") if cue.search(row.name)]
    for group in newest_groups(diagnoses):
        lines.append(diagnosis_line(patient, group))
    lines += [quote(note) for note in notes if note not in quoted]
    return SectionDraft(tuple(lines), "" if is_coded or not lines else NONE_CODED)


def wishes(patient: PatientRows) -> SectionDraft:
    """Return what is coded of code status and the like, and the lines of notes, newest first."""
    pattern = cue_pattern("note", "wishes")
    lines = []
    coded = (
        (patient.rows("diagnosis"), diagnosis_line),
        (patient.rows("procedure"), procedure_line),
    )
    for rows, line_of in coded:
        named = [row for row in rows if pattern.search(row.name)]
        for group in groups_of(named, code_key):
            lines.append(line_of(patient, group))
    notes = patient_notes(patient)
    stated = notes.lines_where(
        notes.authored_lines, lambda part: bool(pattern.search(part.text))
    )
    lines += map(quote, stated)
    message = "Notes as written, the newest first." if stated else ""
    return SectionDraft(tuple(lines), message)


def is_allergy_line(line: NoteLine) -> bool:
    """Whether a line states allergies: by its heading, by a label in it, or by its words."""
    if section_kind(line.heading) == "allergies":
        return True
    for part in line.parts:
        if section_kind(section_label(part.text)) == "allergies":
            return True
    if cue_pattern("allergy", "statement").search(line.text):
        return True
    return any(
        _ALLERGY.match(line.text, match.end) for match in find_concepts(line.text)
    )


def _note_on(row: Row, notes: list[NoteLine]) -> NoteLine | None:
    """The newest line that names a substance with a reaction, else the newest that names it."""
    words = set(_WORD.findall(clean_name(row.name).casefold())) - _GENERAL
    reaction = cue_pattern("allergy", "reaction")
    newest = None
    for note in notes:
        if not _names_any(words, note.text):
            continue
        for part in note.parts:
            if _names_any(words, part.text) and reaction.search(part.text):
                return note
        newest = newest or note
    return newest


def _names_any(words: set[str], text: str) -> bool:
    return not words.isdisjoint(_WORD.findall(text.casefold()))
