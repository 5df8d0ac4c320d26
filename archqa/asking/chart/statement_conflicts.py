"""What notes say otherwise, or later, than the resources that answer a question.

A drug that is ordered may have been stopped, and a value may have been measured elsewhere: a note
that says so stands beside the resources, with both dates.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from archqa.asking.answer import Answer
from archqa.asking.question_parts import asks
from archqa.asking.record import PatientQueries
from archqa.chart.notes import ChartNotes, Place
from archqa.chart.search import texts_with_term
from archqa.chart.search_terms import concept_term
from archqa.query import Query
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
_DIGIT = re.compile(r"\d")
_CLAUSE = re.compile(r"[.;]\s")


class NoteConflict(NamedTuple):
    """A sentence that says otherwise than the resources, where it stands, and of what it speaks."""

    place: Place
    name: str


def note_conflicts(
    question: str,
    record_answer: Answer,
    queries: PatientQueries,
    notes: ChartNotes,
    texts: Sequence[int],
) -> list[NoteConflict]:
    """Return the newest sentence on each thing that says otherwise or later than the resources."""
    conflicts = [*_ended_drugs(record_answer, queries, notes, texts)]
    if asks(question, "present") and not _YEAR.search(question):
        conflicts += _later_values(question, record_answer, notes, texts)
    return list({conflict.place: conflict for conflict in conflicts}.values())


def _ended_drugs(
    answer: Answer, queries: PatientQueries, notes: ChartNotes, texts: Sequence[int]
) -> Iterator[NoteConflict]:
    """Yield sentences by which a drug with an active order is not taken."""
    orders = [row for row in answer.evidence if row.id.startswith(_DRUG_RESOURCES)]
    active = _active_orders(queries) if orders else frozenset()
    drugs: dict[str, Concept] = {}
    for order in orders:
        if order.id in active:
            for concept in _concepts(order.text, "drug"):
                drugs.setdefault(concept.name, concept)
    for drug in list(drugs.values())[:_MAX_DRUGS]:
        for place in _newest_first(notes, drug, texts):
            taken = is_taken(drug, notes.sentence_at(place).text)
            if taken is False:
                yield NoteConflict(place, drug.name)
            if taken is not None:
                break


def _active_orders(queries: PatientQueries) -> frozenset[str]:
    """Return the ids of the resources of drugs that are active."""
    result = queries(Query(what="medication", summary="count"))
    ids: set[str] = set()
    for row in (*result.rows, *result.left_out):
        if row.facts.get("status", ())[:1] == ("active",):
            ids.update(row.refs)
    return frozenset(ids)


def _later_values(
    question: str, answer: Answer, notes: ChartNotes, texts: Sequence[int]
) -> Iterator[NoteConflict]:
    """Yield sentences with a value of what is asked from after the resources' last one."""
    dates = [
        row.date[:10] for row in answer.evidence if row.id.startswith("Observation/")
    ]
    if not dates:
        return
    last = max(dates)
    for concept in _concepts(question, "measurement"):
        for place in _newest_first(notes, concept, texts):
            text = notes.sentence_at(place).text
            date = notes.documents[place.document].date[:10]
            is_later = not date or date > last
            # A sentence may itself date its value, to a month.
            months = [f"{year}-{int(month):02}" for month, year in _MONTH.findall(text)]
            if months and max(months) <= last[:7]:
                is_later = False
            if is_later and _near(concept, text, _DIGIT):
                yield NoteConflict(place, concept.name)
                break


def _concepts(text: str, kind: str) -> list[Concept]:
    return [
        match.concept for match in find_concepts(text) if match.concept.kind == kind
    ]


def _newest_first(
    notes: ChartNotes, concept: Concept, texts: Iterable[int]
) -> list[Place]:
    """Return where sentences name a concept, each in its latest note.

    A note without a date may be the newest.
    """
    naming = texts_with_term(notes, concept_term(concept)).intersection(texts)
    places = sorted(min(notes.places[text]) for text in naming)
    return sorted(places, key=lambda place: notes.documents[place.document].date != "")


def is_taken(drug: Concept, text: str) -> bool | None:
    """Return whether a sentence says that a drug is taken or that it is not; None for neither."""
    denied = cue_pattern("medicine", "not taken")
    blanked = denied.sub(lambda match: _LETTER.sub("-", match[0]), text)
    if _near(drug, blanked, cue_pattern("medicine", "taken")):
        return True
    return False if _near(drug, text, cue_pattern("medicine", "ended")) else None


def _near(concept: Concept, text: str, pattern: re.Pattern[str]) -> bool:
    """Whether a pattern is found in the clause that names a concept, within a few words."""
    for clause in _CLAUSE.split(text):
        for mention in find_concepts(clause):
            if mention.concept.name != concept.name:
                continue
            for match in pattern.finditer(clause):
                first, second = sorted([(mention.start, mention.end), match.span()])
                words_between = clause[first[1] : second[0]].split()
                if len(words_between) <= _WORDS_BETWEEN:
                    return True
    return False
