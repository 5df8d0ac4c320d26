"""The sentences of a patient's notes that answer a question, by the embedded engine.

What a search finds is read by the engine's network for short questions; of sentences that answer
such a question well, those count that are about what is asked: they name it, or their heading,
title or predecessor does.
"""

from collections.abc import Sequence
from functools import cached_property
from math import exp, log
from typing import NamedTuple

import numpy as np

from archqa.chart.chart_notes import ChartNotes, Place
from archqa.chart.note_limits import NO_LIMITS, NoteLimits
from archqa.chart.note_search import Hit, search_notes, texts_with_term
from archqa.chart.note_writer import Encode
from archqa.chart.reading import places_to_read
from archqa.chart.search_terms import SearchTerm, names_in, search_terms
from archqa.core.case import Case, Sentence
from archqa.engine.answer_finder import AnswerFinder, ClauseScore
from archqa.notes.non_evidence import headings_of_sentences, non_evidence_indices
from archqa.notes.tokens import stems
from archqa.query.concepts.phrases import find_concepts

_MAX_READ = 90
"""Sentences that are read for one question."""

_ABOUT = 2.0
"""Logits that a sentence gains which names all that is asked."""

_HEADING, _BEFORE = 0.6, 0.4
"""What a term counts that stands in the heading or title, or in the sentence before."""

_OTHER_DRUG, _NO_DRUG = 5.0, 2.0
"""Logits that a sentence loses which names other drugs than the one asked about, or none."""

_IN_TIME = 1.5
"""Logits that a sentence gains whose note is of the time that is asked about."""

_NEWEST, _YEARS = 4.0, 1.5
"""Logits that the newest note gains where the present is asked about; by years, less."""

_DAYS_OF_A_YEAR = 365.25


class NoteFinding(NamedTuple):
    """A sentence, where it stands, its heading, and how well it answers (a logit)."""

    place: Place
    sentence: Sentence
    heading: str
    score: float
    clauses: Sequence[ClauseScore]


class NoteFinder:
    """Finds answers in the notes of one patient; `texts` are the indices of those that count."""

    def __init__(self, notes: ChartNotes, encode: Encode, texts: Sequence[int]) -> None:
        self.notes = notes
        self._encode = encode
        self._texts = texts
        self._finder = AnswerFinder.load()

    @property
    def fingerprint(self) -> str:
        """The digest of the network."""
        return self._finder.fingerprint

    def find(
        self, question: str, limits: NoteLimits = NO_LIMITS, *, asks_present: bool = False
    ) -> list[NoteFinding]:
        """Return the sentences that were read, those that answer best at the front."""
        named = names_in(question, self._folded_notes)
        question = _with_names(question, named)
        hits = self._search(question, limits)
        places = places_to_read(self.notes, hits, _MAX_READ)
        if not places:
            return []
        case = self._case(question, places)
        finding = self._finder.scores(case, non_evidence_indices(case))
        scores = finding.logits + self._adjustments(question, case, places, limits, asks_present)
        headings = headings_of_sentences(case)
        excluded = non_evidence_indices(case)
        order = [i for i in np.argsort(-scores, kind="stable").tolist() if i not in excluded]
        return [
            NoteFinding(
                place=places[i],
                sentence=case.sentences[i],
                heading=headings.get(i, ""),
                score=float(scores[i]),
                clauses=finding.clauses.get(i, []),
            )
            for i in order
        ]

    def _search(self, question: str, limits: NoteLimits) -> list[Hit]:
        return search_notes(
            self.notes, question, self._encode, limits.documents, self._texts, count=60
        )

    def _case(self, question: str, places: Sequence[Place]) -> Case:
        sentences = [self.notes.sentence_at(place) for place in places]
        return Case(id="chart", clinician_question=question, sentences=tuple(sentences))

    def _adjustments(
        self,
        question: str,
        case: Case,
        places: Sequence[Place],
        limits: NoteLimits,
        asks_present: bool,
    ) -> np.ndarray:
        about = _ABOUT * self._coverage(question, case, places)
        drugs = np.array([-_drug_loss(question, one.text) for one in case.sentences])
        dates = [self.notes.documents[place.document].date for place in places]
        in_time = _IN_TIME * np.array([_is_in_time(date, limits) for date in dates], dtype=float)
        newest = _NEWEST * self._recency(dates) if asks_present else 0.0
        total: np.ndarray = about + drugs + in_time + newest
        return total

    def _coverage(self, question: str, case: Case, places: Sequence[Place]) -> np.ndarray:
        """Return the share of what is asked, by rarity, that each sentence and its place name."""
        headings = headings_of_sentences(case)
        coverage = np.zeros(len(places))
        total = 0.0
        for term in search_terms(question):
            texts = texts_with_term(self.notes, term)
            rarity = log(1 + (len(self.notes.texts) - len(texts) + 0.5) / (len(texts) + 0.5))
            total += rarity
            for i, place in enumerate(places):
                coverage[i] += rarity * self._names(term, texts, place, headings.get(i, ""))
        return coverage / max(total, 1e-9)

    def _names(self, term: SearchTerm, texts: set[int], place: Place, heading: str) -> float:
        if self.notes.text_index(place) in texts:
            return 1.0
        document = self.notes.documents[place.document]
        if term.is_in(frozenset(stems(f"{heading} {document.title} {document.kind}"))):
            return _HEADING
        before = Place(place.document, place.sentence - 1)
        is_before = place.sentence > 0 and self.notes.text_index(before) in texts
        return _BEFORE if is_before else 0.0

    def _recency(self, dates: Sequence[str]) -> np.ndarray:
        """Return 1 for the date of the newest note, and less by the years before it."""
        newest = _days(self.notes.documents[0].date)
        years = [max(newest - _days(date), 0) / _DAYS_OF_A_YEAR for date in dates]
        return np.array([exp(-age / _YEARS) for age in years])

    @cached_property
    def _folded_notes(self) -> str:
        return " ".join(self.notes.texts[index] for index in self._texts).casefold()


def _with_names(question: str, names: Sequence[str]) -> str:
    """Return a question with other names of what it asks about, as the notes have them."""
    if not names:
        return question
    return f"{question.rstrip('?. ')} ({', '.join(names)})?"


def _drug_loss(question: str, text: str) -> float:
    asked = _ingredients(question)
    if not asked:
        return 0.0
    named = _ingredients(text)
    if not named:
        return _NO_DRUG
    return 0.0 if asked & named else _OTHER_DRUG


def _ingredients(text: str) -> frozenset[str]:
    found: set[str] = set()
    for match in find_concepts(text):
        if match.concept.kind in ("drug", "drug_class"):
            found.update(name.partition("@")[0] for name in match.concept.ingredients)
    return frozenset(found)


def _is_in_time(date: str, limits: NoteLimits) -> bool:
    window = limits.window
    return window is not None and window.low.date().isoformat() <= date[:10] <= (
        window.high.date().isoformat()
    )


def _days(date: str) -> float:
    """Return a date as a number of days; of what has no full date, by what it has."""
    parts = (date[:10] + "-01-01").split("-")[:3]
    try:
        year, month, day = (int(part) for part in parts)
    except ValueError:
        return 0.0
    return year * _DAYS_OF_A_YEAR + month * 30.4 + day
