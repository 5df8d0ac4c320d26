"""The sentences of a patient's notes that answer a question, by the embedded engine.

What a search finds is read by the engine's network for short questions; of sentences that answer
such a question well, those count that are about what is asked: they name it, or their heading,
title or predecessor does. The weights were chosen on two charts with 47 questions (the shared one,
and one written for it: `tests/asking/chosen_on`); they are flat around the values chosen.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.chart.chart_notes import ChartNotes, Place
from archqa.chart.note_limits import NO_LIMITS, NoteLimits
from archqa.chart.note_search import Hit, search_notes, texts_with_term
from archqa.chart.note_writer import Encode
from archqa.chart.reading import places_to_read
from archqa.chart.search_terms import (
    SearchTerm,
    names_in,
    search_terms,
    without_carrying_words,
)
from archqa.chart.word_tables import pattern
from archqa.core.case import Case, Sentence
from archqa.engine.answer_finder import AnswerFinder, ClauseScore
from archqa.notes.tokens import stems
from archqa.query.concepts.phrases import find_concepts

MAX_READ = 90
"""Sentences that are read for one question: half a second on two cores."""

_ABOUT = 6.0
"""Logits that a sentence gains which names all that is asked."""

_HEADING, _BEFORE = 0.6, 0.4
"""What a term counts that stands in the heading or title, or in the sentence before."""

_OTHER_DRUG, _NO_DRUG = 4.0, 1.0
"""Logits that a sentence loses which names other drugs than the one asked about, or none."""

_IN_TIME, _OUT_OF_TIME = 1.5, 3.0
"""Logits that a sentence gains whose note is of the time that is asked about, and that one of
another time loses unless it names the year."""

_NEWEST, _YEARS = 4.0, 1.5
"""Logits that the newest note gains where the present is asked about; by years, less."""

_OFF_TOPIC, _MIN_COVERAGE = 5.0, 0.05
"""Logits that a sentence loses which names nothing that is asked, nor its heading or title."""

_CORRECTION, _MIN_COVERAGE_TO_CORRECT = 2.5, 0.5
"""Logits that a sentence gains by which something no longer holds, if the present is asked about."""

_SECTION = 4.0
"""Logits that a sentence gains which stands in the part of a note that is asked for."""

_SECTIONS = {"asks_findings": "conclusion", "asks_plan": "plan"}
"""Patterns of questions ("What did the echo show?") and of the headings that answer them."""

_DAYS_OF_A_YEAR = 365.25

Vector = NDArray[np.float64]


class _ReadSentence(NamedTuple):
    """A sentence that is read, where it stands, its heading, and whether it may be evidence."""

    place: Place
    sentence: Sentence
    heading: str
    is_evidence: bool


class NoteFinding(NamedTuple):
    """A sentence, where it stands, its heading, and how well it answers (a logit).

    `score` is None for one that is shown for another reason.
    """

    place: Place
    sentence: Sentence
    heading: str
    score: float | None
    clauses: tuple[ClauseScore, ...]


class NoteFinder:
    """Finds answers in the notes of one patient.

    `texts` are the indices of those that may answer; others are read with them as their context.
    """

    def __init__(self, notes: ChartNotes, encode: Encode, texts: Sequence[int]) -> None:
        self.notes = notes
        self._encode = encode
        self._texts = frozenset(texts)
        self._finder = AnswerFinder.load()

    @property
    def fingerprint(self) -> str:
        """The digest of the network."""
        return self._finder.fingerprint

    def find(
        self,
        question: str,
        limits: NoteLimits = NO_LIMITS,
        *,
        asks_present: bool = False,
        max_read: int = MAX_READ,
    ) -> list[NoteFinding]:
        """Return the sentences that were read (`max_read` or some more), the best at the front."""
        named = names_in(question, self._folded_notes)
        question = _with_names(question, named)
        hits = self._search(question, limits)
        places = places_to_read(self.notes, hits, max_read)
        if not places:
            return []
        read = self._read(places)
        case = Case(
            id="chart",
            clinician_question=question,
            sentences=tuple(one.sentence for one in read),
        )
        finding = self._finder.scores(case)
        scores = finding.logits + self._adjustments(question, read, limits, asks_present)
        order = np.argsort(-scores, kind="stable").tolist()
        return [
            NoteFinding(
                place=read[i].place,
                sentence=read[i].sentence,
                heading=read[i].heading,
                score=float(scores[i]),
                clauses=tuple(finding.clauses.get(i, ())),
            )
            for i in order
            if read[i].is_evidence
        ]

    def _read(self, places: Sequence[Place]) -> list["_ReadSentence"]:
        read = []
        for index, of_document in groupby(places, key=lambda place: place.document):
            headings = self.notes.headings(index)
            non_evidence = self.notes.non_evidence(index)
            for place in of_document:
                sentence = self.notes.sentence_at(place)
                heading = headings.get(place.sentence, "")
                is_own = self.notes.text_index(place) in self._texts
                is_evidence = is_own and place.sentence not in non_evidence
                read.append(_ReadSentence(place, sentence, heading, is_evidence))
        return read

    def _search(self, question: str, limits: NoteLimits) -> list[Hit]:
        return search_notes(
            self.notes, question, self._encode, limits.documents, self._texts, count=60
        )

    def _adjustments(
        self,
        question: str,
        read: Sequence["_ReadSentence"],
        limits: NoteLimits,
        asks_present: bool,
    ) -> Vector:
        coverage = self._coverage(question, read)
        dates = [self.notes.documents[one.place.document].date for one in read]
        total = _ABOUT * coverage - _OFF_TOPIC * (coverage < _MIN_COVERAGE)
        total -= np.array([_drug_loss(question, one.sentence.text) for one in read])
        total += [_time_gain(one, date, limits) for one, date in zip(read, dates, strict=True)]
        total += _SECTION * np.array([self._is_section_asked(question, one) for one in read])
        if asks_present:
            total += _NEWEST * self._recency(dates)
            corrects = np.array([_corrects(one.sentence.text) for one in read], dtype=float)
            total += _CORRECTION * corrects * (coverage >= _MIN_COVERAGE_TO_CORRECT)
        return total

    def _coverage(self, question: str, read: Sequence["_ReadSentence"]) -> Vector:
        """Return the share of what is asked, by rarity, that each sentence and its place name."""
        coverage = np.zeros(len(read))
        total = 0.0
        for term in search_terms(without_carrying_words(question)):
            texts = texts_with_term(self.notes, term)
            rarity = log(1 + (len(self.notes.texts) - len(texts) + 0.5) / (len(texts) + 0.5))
            total += rarity
            for i, one in enumerate(read):
                coverage[i] += rarity * self._names(term, texts, one)
        return coverage / total if total else np.ones(len(read))

    def _is_section_asked(self, question: str, read: "_ReadSentence") -> bool:
        """Whether a sentence stands in the part of a note of the asked kind that is asked for."""
        document = self.notes.documents[read.place.document]
        title = frozenset(stems(f"{document.title} {document.kind}"))
        if not any(term.is_in(title) for term in search_terms(question)):
            return False
        return any(
            pattern(asked).search(question) and pattern(heading).search(read.heading)
            for asked, heading in _SECTIONS.items()
        )

    def _names(self, term: SearchTerm, texts: set[int], read: "_ReadSentence") -> float:
        place = read.place
        if self.notes.text_index(place) in texts:
            return 1.0
        document = self.notes.documents[place.document]
        if term.is_in(frozenset(stems(f"{read.heading} {document.title} {document.kind}"))):
            return _HEADING
        before = Place(place.document, place.sentence - 1)
        is_before = place.sentence > 0 and self.notes.text_index(before) in texts
        return _BEFORE if is_before else 0.0

    def _recency(self, dates: Sequence[str]) -> Vector:
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


def _corrects(text: str) -> bool:
    """Whether a sentence says that something no longer holds or was wrong."""
    return pattern("corrects").search(text) is not None


def _time_gain(read: "_ReadSentence", date: str, limits: NoteLimits) -> float:
    """Return what a sentence gains or loses by the time that is asked about."""
    window = limits.window
    if window is None:
        return 0.0
    low, high = window.low.date().isoformat(), window.high.date().isoformat()
    if low <= date[:10] <= high:
        return _IN_TIME
    years = (low[:4], f"/{low[2:4]}")
    return 0.0 if any(year in read.sentence.text for year in years) else -_OUT_OF_TIME


def _days(date: str) -> float:
    """Return a date as a number of days; of what has no full date, by what it has."""
    parts = (date[:10] + "-01-01").split("-")[:3]
    try:
        year, month, day = (int(part) for part in parts)
    except ValueError:
        return 0.0
    return year * _DAYS_OF_A_YEAR + month * 30.4 + day
