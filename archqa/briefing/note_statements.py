"""What lines of notes state on allergies, and on a patient's wishes."""

import re

from archqa.briefing.drafts import SectionDraft
from archqa.briefing.note_lines import lines_where, newest_first, own_lines, quotation
from archqa.briefing.notes import NoteLine
from archqa.briefing.patient_rows import PatientRows, code_key, groups_of
from archqa.briefing.problems import diagnosis_line
from archqa.briefing.procedures import procedure_line
from archqa.notes.sections import section_kind, section_label
from archqa.terminology.concepts import find_concepts
from archqa.terminology.cues import cue_pattern

MAX_WISHES = 8

_ALLERGY = re.compile(r"[ -]allerg(?:y|ies)\b", re.IGNORECASE)
"""After the name of a drug: `ceftriaxone allergy`."""


def is_allergy_line(line: NoteLine) -> bool:
    """Whether a line states allergies: by its heading, by a label in it, or by its words."""
    if section_kind(line.heading) == "allergies":
        return True
    if any(section_kind(section_label(part.text)) == "allergies" for part in line.parts):
        return True
    if cue_pattern("allergy", "statement").search(line.text):
        return True
    return any(_ALLERGY.match(line.text[match.end :]) for match in find_concepts(line.text))


def allergy_lines(patient: PatientRows) -> list[NoteLine]:
    """Return the lines of all notes that state allergies, the newest note first."""
    found = [line for line in own_lines(patient) if is_allergy_line(line)]
    return newest_first(found)


def names_reaction(text: str) -> bool:
    """Whether a text says how somebody reacted: hives, swelling."""
    return cue_pattern("allergy", "reaction").search(text) is not None


def is_allergic_diagnosis(name: str) -> bool:
    """Whether the name of a condition tells an allergy or an allergic reaction."""
    return cue_pattern("allergy", "diagnosis").search(name) is not None


def wishes(patient: PatientRows) -> SectionDraft:
    """Return what is coded of code status and the like, and the lines of notes, newest first."""
    pattern = cue_pattern("note", "wishes")
    coded = [row for row in patient.rows("diagnosis") if pattern.search(row.name)]
    lines = [diagnosis_line(patient, group) for group in groups_of(coded, code_key)]
    done = [row for row in patient.rows("procedure") if pattern.search(row.name)]
    lines += [procedure_line(patient, group) for group in groups_of(done, code_key)]
    found = lines_where(patient, own_lines(patient), lambda part: _has(pattern, part.text))
    lines += [quotation(line) for line in found[:MAX_WISHES]]
    message = "Notes as written, the newest first." if found else ""
    if len(found) > MAX_WISHES:
        message = f"{message} {len(found) - MAX_WISHES} earlier ones are left out."
    return SectionDraft(tuple(lines), message)


def _has(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.search(text) is not None
