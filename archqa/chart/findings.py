"""The sentences of a patient's notes that answer a question, by the embedded engine.

What a search finds is read by the engine's network for short questions. The network reads how well a
sentence answers such a question, and little of what it is about: "Why was X stopped?" is answered well by
why Y was stopped. So its logit and what the sentence is about (`Relevance`) decide together.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import groupby
from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.chart.note_index import Encode
from archqa.chart.notes import ChartNotes, Place
from archqa.chart.search import (
    NO_LIMITS,
    Hit,
    NoteLimits,
    SearchTerm,
    concept_term,
    names_in,
    search_notes,
    search_terms,
    texts_with_term,
    without_carrying_words,
)
from archqa.core.case import Case, Sentence
from archqa.engine.answer_finder import AnswerFinder, ClauseScore
from archqa.terminology.concept import Concept
from archqa.terminology.concepts import find_concepts
from archqa.terminology.cues import cue_pattern
from archqa.terminology.people import relative_pattern
from archqa.terminology.words import stems

_WHOLE_NOTES = 3
"""Notes that are read as a whole: those with the best hits."""

_HITS_OF_A_NOTE = 3
"""Hits of a note that count for its rank: a long note must not win by its length."""

_MAX_WHOLE = 60
"""Sentences of a longer note are read around its hits only."""

_NEIGHBOURS = 1
"""Sentences before and after a hit that are read with it."""


def places_to_read(notes: ChartNotes, hits: Sequence[Hit], max_sentences: int) -> list[Place]:
    """Return the sentences to read, at most about `max_sentences`, in the order of the notes.

    The notes with the best hits are read whole, of others the best hits with their neighbours.
    """
    chosen: dict[Place, None] = {}
    for index in _best_notes(hits)[:_WHOLE_NOTES]:
        length = len(notes.documents[index].numbers)
        if length <= _MAX_WHOLE and len(chosen) + length <= max_sentences:
            chosen.update(dict.fromkeys(Place(index, position) for position in range(length)))
    for hit in hits:
        if len(chosen) >= max_sentences:
            break
        chosen.update(dict.fromkeys(_around(notes, hit.place)))
    return sorted(chosen)


def _best_notes(hits: Sequence[Hit]) -> list[int]:
    """Return the indices of the notes by the sum of their best hits."""
    scores: dict[int, list[float]] = defaultdict(list)
    for hit in hits:
        scores[hit.place.document].append(hit.score)
    totals = {index: sum(own[:_HITS_OF_A_NOTE]) for index, own in scores.items()}
    return sorted(totals, key=lambda index: -totals[index])


def _around(notes: ChartNotes, place: Place) -> Iterator[Place]:
    length = len(notes.documents[place.document].numbers)
    first = max(place.sentence - _NEIGHBOURS, 0)
    for position in range(first, min(place.sentence + _NEIGHBOURS + 1, length)):
        yield Place(place.document, position)


_ABOUT = 6.0
"""What a sentence gains that names all that is asked."""

_HEADING, _BEFORE = 0.6, 0.4
"""What a term counts that stands in the heading or title, or in the sentence before."""

_OFF_TOPIC, _MIN_COVERAGE = 5.0, 0.05
"""What a sentence loses that names nothing that is asked, nor its heading or title."""

_OTHER_DRUG, _NO_DRUG = 20.0, 1.0
"""What a sentence loses that names other drugs than the one asked about, or none. What is said of
another drug is no answer, however well it reads."""

_NO_RELATIVE = 20.0
"""What a sentence loses that names no relative, where one is asked about."""

_NO_VALUE, _OTHER_TEST = 5.0, 4.0
"""What a sentence loses that says that a test was sent, where its value is asked for; and one that
does not name the test whose value is asked for, nor its heading or predecessor."""

_IN_TIME, _OUT_OF_TIME = 1.5, 3.0
"""What a sentence gains whose note is of the time that is asked about, and what one of another time
loses unless it names the year."""

_NEWEST, _YEARS = 4.0, 1.5
"""What the newest note gains where the present is asked about; by years, less."""

_CORRECTION, _MIN_COVERAGE_TO_CORRECT = 2.5, 0.5
"""What a sentence gains by which something no longer holds, if the present is asked about."""

_SECTION = 5.0
"""What a sentence gains that stands in the part of a note that is asked for."""

_SECTIONS = {"asks findings": "conclusion", "asks plan": "plan"}
"""Cues of questions ("What did the echo show?") and of the headings that answer them."""

_DAYS_OF_A_YEAR = 365.25

_ASKS_TEST = re.compile(
    r"\W*(?:what(?:['’]s| is| was| were| are)|last|latest|most recent|newest|recent|current)\b",
    re.IGNORECASE,
)
_FEW_WORDS = 4
"""A question of so few words that names a test asks for its value: "TSH in 2020?"."""

_NEAR = 25
"""Characters between "what was" and the test ("his last fasting")."""

_RESULT = re.compile(r"(?<![/\d])\d+(?:\.\d+)?(?![/\d]) ?(?:%|[a-zµ]+/|mm|mg|ng|pg|g\b|U\b)")

Vector = NDArray[np.float64]


class ReadSentence(NamedTuple):
    """A sentence that is read, where it stands, its heading, and whether it may be evidence."""

    place: Place
    sentence: Sentence
    heading: str
    is_evidence: bool


class Relevance:
    """What sentences gain or lose for one question about one patient's notes."""

    def __init__(
        self, notes: ChartNotes, question: str, limits: NoteLimits, *, asks_present: bool
    ) -> None:
        self._notes = notes
        self._question = question
        self._limits = limits
        self._asks_present = asks_present
        self._terms = search_terms(question)
        self._drugs = _ingredients(question)
        self._test = _asked_test(question)
        self._headings = [
            cue_pattern("chart", heading)
            for asked, heading in _SECTIONS.items()
            if cue_pattern("chart", asked).search(question)
        ]

    def gains(self, read: Sequence[ReadSentence]) -> Vector:
        """Return what each sentence gains, of shape (sentences,)."""
        coverage = self._coverage(read)
        total = _ABOUT * coverage - _OFF_TOPIC * (coverage < _MIN_COVERAGE)
        total -= np.array([self._drug_loss(one.sentence.text) for one in read])
        total -= self._value_loss(read)
        total -= _NO_RELATIVE * np.array([self._lacks_relative(one) for one in read])
        total += np.array([self._time_gain(one) for one in read])
        total += _SECTION * np.array([self._is_section_asked(one) for one in read])
        if self._asks_present:
            total += _NEWEST * np.array([self._recency(one) for one in read])
            corrects = np.array([_corrects(one.sentence.text) for one in read])
            total += _CORRECTION * (corrects & (coverage >= _MIN_COVERAGE_TO_CORRECT))
        return total

    def _coverage(self, read: Sequence[ReadSentence]) -> Vector:
        """Return the share of what is asked, by rarity, that each sentence and its place name."""
        coverage = np.zeros(len(read))
        total = 0.0
        count = len(self._notes.texts)
        for term in search_terms(without_carrying_words(self._question)):
            texts = texts_with_term(self._notes, term)
            rarity = log(1 + (count - len(texts) + 0.5) / (len(texts) + 0.5))
            total += rarity
            coverage += rarity * np.array([self._names(term, texts, one) for one in read])
        return coverage / total if total else np.ones(len(read))

    def _names(self, term: SearchTerm, texts: set[int], read: ReadSentence) -> float:
        place = read.place
        if self._notes.text_index(place) in texts:
            return 1.0
        if term.is_in(frozenset(stems(f"{read.heading} {self._title(place)}"))):
            return _HEADING
        before = Place(place.document, place.sentence - 1)
        is_before = place.sentence > 0 and self._notes.text_index(before) in texts
        return _BEFORE if is_before else 0.0

    def _title(self, place: Place) -> str:
        document = self._notes.documents[place.document]
        return f"{document.title} {document.kind}"

    def _drug_loss(self, text: str) -> float:
        if not self._drugs:
            return 0.0
        named = _ingredients(text)
        if not named:
            return _NO_DRUG
        return 0.0 if self._drugs & named else _OTHER_DRUG

    def _lacks_relative(self, read: ReadSentence) -> bool:
        relative = relative_pattern()
        said = f"{read.heading} {read.sentence.text}"
        return bool(relative.search(self._question)) and not relative.search(said)

    def _value_loss(self, read: Sequence[ReadSentence]) -> Vector:
        """Return what sentences lose that do not give the value that is asked for."""
        loss = np.zeros(len(read))
        if self._test is not None or cue_pattern("chart", "asks value").search(self._question):
            loss += _NO_VALUE * np.array([_has_no_value(one.sentence.text) for one in read])
        if self._test is not None:
            term = concept_term(self._test)
            texts = texts_with_term(self._notes, term)
            named = np.array([self._names(term, texts, one) for one in read])
            loss += _OTHER_TEST * (named == 0)
        return loss

    def _time_gain(self, read: ReadSentence) -> float:
        window = self._limits.window
        if window is None:
            return 0.0
        low, high = window.low.date().isoformat(), window.high.date().isoformat()
        if low <= self._date(read)[:10] <= high:
            return _IN_TIME
        years = (low[:4], f"/{low[2:4]}")
        return 0.0 if any(year in read.sentence.text for year in years) else -_OUT_OF_TIME

    def _is_section_asked(self, read: ReadSentence) -> bool:
        """Whether a sentence stands in the part that is asked for, of a note of the asked kind."""
        if not any(heading.search(read.heading) for heading in self._headings):
            return False
        title = frozenset(stems(self._title(read.place)))
        return any(term.is_in(title) for term in self._terms)

    def _recency(self, read: ReadSentence) -> float:
        """Return 1 for a sentence of the newest note, and less by the years before it."""
        days = _days(self._notes.documents[0].date) - _days(self._date(read))
        return exp(-max(days, 0) / _DAYS_OF_A_YEAR / _YEARS)

    def _date(self, read: ReadSentence) -> str:
        return self._notes.documents[read.place.document].date


@lru_cache(maxsize=4096)
def _ingredients(text: str) -> frozenset[str]:
    """Return the ingredients of the drugs and classes of drugs that a text names."""
    found: set[str] = set()
    for match in find_concepts(text):
        if match.concept.kind in ("drug", "drug_class"):
            found.update(name.partition("@")[0] for name in match.concept.ingredients)
    return frozenset(found)


def _asked_test(question: str) -> Concept | None:
    """Return the test whose value a question asks for: "What was the ferritin when …?"."""
    opening = _ASKS_TEST.match(question)
    if opening is None and len(question.split()) > _FEW_WORDS:
        return None
    end = opening.end() if opening else 0
    for match in find_concepts(question):
        if match.concept.kind == "measurement" and match.start <= end + _NEAR:
            return match.concept
    return None


def _has_no_value(text: str) -> bool:
    """Whether a sentence says that a test was sent or ordered, and gives no number after it."""
    found = cue_pattern("chart", "no value yet").search(text)
    return found is not None and not _RESULT.search(text[found.end() :])


def _corrects(text: str) -> bool:
    """Whether a sentence says that something no longer holds or was wrong."""
    return cue_pattern("chart", "corrects").search(text) is not None


def _days(date: str) -> float:
    """Return a date as a number of days; of what has no full date, by what it has."""
    parts = (date[:10] + "-01-01").split("-")[:3]
    try:
        year, month, day = (int(part) for part in parts)
    except ValueError:
        return 0.0
    return year * _DAYS_OF_A_YEAR + month * 30.4 + day


MAX_READ = 90
"""Sentences that are read for one question: half a second on two cores."""


class NoteFinding(NamedTuple):
    """A sentence, where it stands, its heading, and how well it answers.

    `score` ranks sentences; it is the network's logit and what `Relevance` adds.
    """

    place: Place
    sentence: Sentence
    heading: str
    score: float
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
        relevance = Relevance(self.notes, question, limits, asks_present=asks_present)
        scores = finding.logits + relevance.gains(read)
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

    def _read(self, places: Sequence[Place]) -> list[ReadSentence]:
        read = []
        for index, of_document in groupby(places, key=lambda place: place.document):
            headings = self.notes.headings(index)
            non_evidence = self.notes.non_evidence(index)
            for place in of_document:
                sentence = self.notes.sentence_at(place)
                heading = headings.get(place.sentence, "")
                is_own = self.notes.text_index(place) in self._texts
                is_evidence = is_own and place.sentence not in non_evidence
                read.append(ReadSentence(place, sentence, heading, is_evidence))
        return read

    def _search(self, question: str, limits: NoteLimits) -> list[Hit]:
        return search_notes(
            self.notes, question, self._encode, limits.documents, self._texts, count=60
        )

    @cached_property
    def _folded_notes(self) -> str:
        return " ".join(self.notes.texts[index] for index in self._texts).casefold()


def _with_names(question: str, names: Sequence[str]) -> str:
    """Return a question with other names of what it asks about, as the notes have them."""
    if not names:
        return question
    return f"{question.rstrip('?. ')} ({', '.join(names)})?"
