"""What notes say otherwise, or later, than the resources that answer a question.

A drug that is ordered may have been stopped, and a value may have been measured elsewhere: a note
that says so stands beside the resources, with both dates.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from archqa.asking.answer import Answer, Evidence
from archqa.asking.chart.question_parts import asks_present
from archqa.chart.notes import ChartNotes, Place
from archqa.chart.search import concept_term, texts_with_term
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import find_concepts
from archqa.terminology.cues import cue_pattern

_DRUG_RESOURCES = ("MedicationRequest/", "MedicationStatement/", "MedicationDispense/")
_MAX_DRUGS = 8
_WORDS_BETWEEN = 6
"""Words between a drug and what is said of it: "STOP escitalopram", "fluoxetine: not taken"."""

_MONTH = re.compile(r"\b(\d{1,2})/(?:\d{1,2}/)?((?:19|20)\d\d)\b")
_YEAR = re.compile(r"\b(?:19|20|21|22)\d\d\b")
_LETTER = re.compile(r"\w")
_CLAUSE = re.compile(r"[.;]\s")


class NoteConflict(NamedTuple):
    """A sentence that says otherwise than the resources, where it stands, and of what it speaks."""

    place: Place
    name: str


def note_conflicts(
    question: str, record_answer: Answer, notes: ChartNotes, texts: Sequence[int]
) -> list[NoteConflict]:
    """Return the newest sentence on each thing that says otherwise or later than the resources."""
    conflicts = [*_ended_drugs(record_answer, notes, texts)]
    if asks_present(question) and not _YEAR.search(question):
        conflicts += _later_values(question, record_answer, notes, texts)
    return list({conflict.place: conflict for conflict in conflicts}.values())


def _ended_drugs(answer: Answer, notes: ChartNotes, texts: Sequence[int]) -> Iterator[NoteConflict]:
    """Yield sentences by which a drug with an active order is not taken."""
    active = [row for row in answer.evidence if _is_active_order(row)]
    drugs: dict[str, Concept] = {}
    for row in active:
        for concept in _concepts(row.text, ("drug",)):
            drugs.setdefault(concept.name, concept)
    for drug in list(drugs.values())[:_MAX_DRUGS]:
        places = _newest_first(notes, drug, texts)
        newest = next((p for p in places if says_of(drug, notes.sentence_at(p).text)), None)
        if newest and is_ended(drug, notes.sentence_at(newest).text):
            yield NoteConflict(newest, drug.name)


def _is_active_order(row: Evidence) -> bool:
    return row.id.startswith(_DRUG_RESOURCES) and "active" in row.text


def _later_values(
    question: str, answer: Answer, notes: ChartNotes, texts: Sequence[int]
) -> Iterator[NoteConflict]:
    """Yield sentences with a value of what is asked from after the resources' last one."""
    dates = [row.date[:10] for row in answer.evidence if row.id.startswith("Observation/")]
    for concept in _concepts(question, ("measurement",)) if dates else ():
        for place in _newest_first(notes, concept, texts):
            date = notes.documents[place.document].date[:10]
            text = notes.sentence_at(place).text
            is_later = date > max(dates) and not _is_of_before(text, max(dates))
            if is_later and _has_value(concept, text):
                yield NoteConflict(place, concept.name)
                break


def _concepts(text: str, kinds: Iterable[str]) -> list[Concept]:
    return [match.concept for match in find_concepts(text) if match.concept.kind in kinds]


def _newest_first(notes: ChartNotes, concept: Concept, texts: Sequence[int]) -> list[Place]:
    """Return where sentences name a concept, each in its latest note."""
    found = texts_with_term(notes, concept_term(concept)).intersection(texts)
    return sorted(min(notes.places[text]) for text in found)


def says_of(drug: Concept, text: str) -> bool:
    """Whether a sentence says that a drug is taken, changed or ended."""
    return _near(drug, text, cue_pattern("medicine", "ended")) or _is_taken(drug, text)


def is_ended(drug: Concept, text: str) -> bool:
    """Whether a sentence says that a drug was ended or is not taken, and not that it is."""
    return _near(drug, text, cue_pattern("medicine", "ended")) and not _is_taken(drug, text)


def _is_taken(drug: Concept, text: str) -> bool:
    denied = cue_pattern("medicine", "not taken")
    blanked = denied.sub(lambda match: _LETTER.sub("-", match[0]), text)
    return _near(drug, blanked, cue_pattern("medicine", "taken"))


def _is_of_before(text: str, day: str) -> bool:
    """Whether a sentence dates its value itself, to a month no later than a day."""
    months = [f"{year}-{int(month):02}" for month, year in _MONTH.findall(text)]
    return bool(months) and max(months) <= day[:7]


def _has_value(concept: Concept, text: str) -> bool:
    return bool(_near(concept, text, re.compile(r"\d")))


def _near(concept: Concept, text: str, pattern: re.Pattern[str]) -> bool:
    """Whether a pattern is found in the clause that names a concept, within a few words."""
    for clause in _CLAUSE.split(text):
        spans = [(m.start, m.end) for m in find_concepts(clause) if m.concept.name == concept.name]
        for match in pattern.finditer(clause):
            if any(_words_between(clause, span, match.span()) <= _WORDS_BETWEEN for span in spans):
                return True
    return False


def _words_between(text: str, first: tuple[int, int], second: tuple[int, int]) -> int:
    left, right = sorted((first, second))
    return len(text[left[1] : right[0]].split())
