"""What a newer note says otherwise of a drug than its order: not taken, ended, another dose."""

import re
from functools import cache

from archqa.asking.chart.statement_conflicts import is_ended, says_of
from archqa.asking.record_words import number_text
from archqa.briefing.note_lines import lines_naming
from archqa.briefing.note_statements import is_allergy_line
from archqa.briefing.notes import NoteLine
from archqa.briefing.patient_rows import PatientRows
from archqa.query.execution.rows import Row
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import find_concepts

_AMOUNT = r"(\d+(?:\.\d+)?)"
_DOSE = re.compile(rf"(?<![\d/.,]){_AMOUNT} ?(mg|mcg|g|units?)\b(?! ?/ ?d?l\b)", re.IGNORECASE)
_WORDS_TO_DOSE = 3


def said_otherwise(patient: PatientRows, row: Row) -> NoteLine | None:
    """Return the newest line of a note, newer than an order, that says otherwise of its drug.

    None where the newest line that says whether it is taken agrees with the order.
    """
    for drug in _drugs(row.name):
        newest = _newest_line(patient, drug)
        is_newer = newest is not None and newest.date[:10] > _day(row)
        if newest is not None and is_newer and _says_otherwise(drug, newest, row):
            return newest
    return None


def _newest_line(patient: PatientRows, drug: Concept) -> NoteLine | None:
    lines = [line for line in lines_naming(patient, drug.name) if not is_allergy_line(line)]
    return next((line for line in lines if _speaks_of(drug, line)), None)


def _speaks_of(drug: Concept, line: NoteLine) -> bool:
    """Whether a line says that a drug is taken, changed or ended, or its dose."""
    return any(says_of(drug, part.text) or _doses(drug, part.text) for part in line.parts)


def _says_otherwise(drug: Concept, line: NoteLine, row: Row) -> bool:
    if any(is_ended(drug, part.text) for part in line.parts):
        return True
    doses = {dose for part in line.parts for dose in _doses(drug, part.text)}
    ordered = {match[1] for match in _DOSE.finditer(row.name)}
    ordered |= {number_text(row.value)} if row.value is not None else set()
    return bool(doses and ordered) and not doses & ordered


def _doses(drug: Concept, text: str) -> list[str]:
    """The doses that stand a few words after a drug: `sertraline 150 mg`."""
    doses = []
    for match in find_concepts(text):
        if match.concept.name == drug.name:
            rest = text[match.end :]
            dose = _DOSE.search(rest)
            if dose and len(rest[: dose.start()].split()) <= _WORDS_TO_DOSE:
                doses.append(dose[1])
    return doses


@cache
def _drugs(name: str) -> tuple[Concept, ...]:
    concepts = [match.concept for match in find_concepts(name) if match.concept.kind == "drug"]
    return tuple({concept.name: concept for concept in concepts}.values())


def _day(row: Row) -> str:
    """The day of an order, or of its start."""
    time = row.authored_on or row.time
    return time.date().isoformat() if time else ""
