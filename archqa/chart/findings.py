"""The sentences of a patient's notes that answer a question, by the embedded engine.

What a search finds is read by the engine's network for short questions. The network reads how well a
sentence answers such a question, and little of what it is about: "Why was X stopped?" is answered well by
why Y was stopped. So its logit and what the sentence is about (`Relevance`) decide together.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.chart.note_index import Encode
from archqa.chart.notes import ChartNotes, Place
from archqa.chart.search import (
    NO_LIMITS,
    Hit,
    NoteLimits,
    search_notes,
    texts_with_term,
)
from archqa.chart.search_terms import (
    SearchTerm,
    names_in,
    rarity,
    search_terms,
    without_carrying_words,
)
from archqa.chart.weights import WEIGHTS
from archqa.core.case import Case, Sentence
from archqa.engine.answer_finder import AnswerFinder, ClauseScore
from archqa.notes.assertion import Judgement, Passage, leans_on_before
from archqa.notes.focus import ANY_RELATIVE, PATIENT, Focus, question_focus
from archqa.terminology.cues import cue_pattern
from archqa.terminology.people import relatives_named
from archqa.terminology.words import stems

Vector = NDArray[np.float64]

_SECTIONS = {"asks findings": "conclusion", "asks plan": "plan"}
"""Cues of questions ("What did the echo show?") and of the headings that answer them."""

_OWN = re.compile(r"\b(?:my|our) (\w+)", re.IGNORECASE)
_DAYS_OF_A_YEAR = 365.25
_DAYS_OF_A_MONTH = 30.4


def places_to_read(
    notes: ChartNotes, hits: Sequence[Hit], max_sentences: int
) -> list[Place]:
    """Return the sentences to read, at most about `max_sentences`, in the order of the notes.

    The notes with the best hits are read whole, of others the best hits with their neighbours.
    """
    scores: dict[int, list[float]] = defaultdict(list)
    for hit in hits:
        scores[hit.place.document].append(hit.score)
    best_notes = sorted(
        scores, key=lambda index: -sum(scores[index][: WEIGHTS.hits_of_note])
    )
    chosen: set[Place] = set()
    for index in best_notes[: WEIGHTS.whole_notes]:
        length = len(notes.documents[index].numbers)
        if length <= WEIGHTS.max_whole and len(chosen) + length <= max_sentences:
            chosen.update(Place(index, position) for position in range(length))
    for hit in hits:
        if len(chosen) >= max_sentences:
            break
        index, position = hit.place
        last = len(notes.documents[index].numbers) - 1
        start = max(position - WEIGHTS.neighbours, 0)
        end = min(position + WEIGHTS.neighbours, last)
        chosen.update(Place(index, near) for near in range(start, end + 1))
    return sorted(chosen)


class ReadSentence(NamedTuple):
    """A sentence that is read, where it stands, what is judged, and whether it may be evidence."""

    place: Place
    sentence: Sentence
    passage: Passage
    is_evidence: bool


class Relevance:
    """What sentences gain or lose for one question about one patient's notes."""

    def __init__(
        self,
        notes: ChartNotes,
        question: str,
        limits: NoteLimits,
        *,
        asks_present: bool,
    ) -> None:
        self._notes = notes
        self._limits = limits
        self._asks_present = asks_present
        self._terms = search_terms(question)
        self._headings = []
        for request, heading in _SECTIONS.items():
            if cue_pattern("chart", request).search(question):
                self._headings.append(cue_pattern("chart", heading))
        self._terms_with_content = search_terms(without_carrying_words(question))
        self._texts_of_terms: dict[SearchTerm, set[int]] = {}

    def gains(self, read: Sequence[ReadSentence]) -> Vector:
        """Return what each sentence gains, of shape (sentences,)."""
        return np.array(list(map(self._gain, read)))

    def _gain(self, read: ReadSentence) -> float:
        text = read.sentence.text
        coverage = self._coverage(read)
        gain = WEIGHTS.about * coverage
        if coverage < WEIGHTS.min_coverage:
            gain -= WEIGHTS.off_topic
        gain += self._time_gain(read)
        if self._is_in_requested_section(read):
            gain += WEIGHTS.section
        if self._asks_present:
            # Most for the newest note, and less by the years before it; without a date it may be the newest.
            newest = self._notes.documents[0].date
            days = _days(newest) - _days(self._date(read) or newest)
            recency = exp(-max(days, 0) / _DAYS_OF_A_YEAR / WEIGHTS.newest_years)
            gain += WEIGHTS.newest * recency
            # Something no longer holds or was wrong.
            corrects = cue_pattern("chart", "corrects").search(text) is not None
            if corrects and coverage >= WEIGHTS.min_coverage_to_correct:
                gain += WEIGHTS.correction
        return gain

    def _coverage(self, read: ReadSentence) -> float:
        """Return the share of what is asked, by rarity, that a sentence and its place name."""
        coverage = total = 0.0
        for term in self._terms_with_content:
            weight = rarity(len(self._notes.texts), len(self._texts(term)))
            total += weight
            coverage += weight * self._share_named(term, read)
        return coverage / total if total else 1.0

    def _texts(self, term: SearchTerm) -> set[int]:
        if term not in self._texts_of_terms:
            self._texts_of_terms[term] = texts_with_term(self._notes, term)
        return self._texts_of_terms[term]

    def _share_named(self, term: SearchTerm, read: ReadSentence) -> float:
        """Return 1 if a sentence names a term, less if its heading or the one before does."""
        texts = self._texts(term)
        place = read.place
        if self._notes.text_index(place) in texts:
            return 1.0
        if term.is_in(frozenset(stems(f"{read.passage.heading} {self._title(place)}"))):
            return WEIGHTS.heading_term
        previous = Place(place.document, place.sentence - 1)
        if place.sentence > 0 and self._notes.text_index(previous) in texts:
            return WEIGHTS.previous_term
        return 0.0

    def _title(self, place: Place) -> str:
        document = self._notes.documents[place.document]
        return f"{document.title} {document.kind}"

    def _time_gain(self, read: ReadSentence) -> float:
        window = self._limits.window
        if window is None or not self._date(read):
            return 0.0
        low, high = window.low.date().isoformat(), window.high.date().isoformat()
        if low <= self._date(read)[:10] <= high:
            return WEIGHTS.in_time
        text = read.sentence.text
        names_year = low[:4] in text or f"/{low[2:4]}" in text
        return 0.0 if names_year else -WEIGHTS.out_of_time

    def _is_in_requested_section(self, read: ReadSentence) -> bool:
        """Whether a sentence stands in the part that is asked for, of a note of that kind."""
        if not any(heading.search(read.passage.heading) for heading in self._headings):
            return False
        title = frozenset(stems(self._title(read.place)))
        return any(term.is_in(title) for term in self._terms)

    def _date(self, read: ReadSentence) -> str:
        return self._notes.documents[read.place.document].date


def _days(date: str) -> float:
    """Return a date as a number of days; of what has no full date, by what it has."""
    parts = (date[:10] + "-01-01").split("-")[:3]
    try:
        year, month, day = map(int, parts)
    except ValueError:
        return 0.0
    return year * _DAYS_OF_A_YEAR + month * _DAYS_OF_A_MONTH + day


class NoteFinding(NamedTuple):
    """A sentence, where it stands, its heading, how well it answers, and what it says.

    `score` ranks sentences: the log-odds that it answers, and what `Relevance` adds.
    """

    place: Place
    sentence: Sentence
    heading: str = ""
    score: float = 0.0
    judgement: Judgement | None = None
    clauses: tuple[ClauseScore, ...] = ()


def chart_focus(part: str) -> Focus:
    """Return what a question to a chart is about.

    When it was is read from the dates of notes. Whether "my husband" is the patient is not known.
    """
    focus = question_focus(part)
    own = _OWN.search(part)
    if focus.person == PATIENT and own and relatives_named(own[1]):
        focus = focus._replace(person=ANY_RELATIVE)
    return focus._replace(asks_this_stay=False, days={})


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
        max_read: int = WEIGHTS.max_read,
    ) -> list[NoteFinding]:
        """Return the sentences that were read (`max_read` or some more), the best at the front."""
        # The network knows drugs and tests by the names that the notes use.
        names = names_in(question, self._folded_notes)
        with_names = (
            f"{question.rstrip('?. ')} ({', '.join(names)})?" if names else question
        )
        hits = search_notes(
            self.notes,
            with_names,
            self._encode,
            limits.documents,
            self._texts,
            WEIGHTS.hits,
        )
        places = places_to_read(self.notes, hits, max_read)
        if not places:
            return []
        read = self._read(places)
        sentences = tuple(one.sentence for one in read)
        case = Case(id="chart", clinician_question=with_names, sentences=sentences)
        passages = [one.passage for one in read]
        judged, clauses = self._finder.judge(case, chart_focus(question), passages)
        relevance = Relevance(self.notes, question, limits, asks_present=asks_present)
        scores = judged.log_odds + relevance.gains(read)
        findings = []
        for i in np.argsort(-scores, kind="stable").tolist():
            if read[i].is_evidence:
                place, sentence, passage, _ = read[i]
                finding = NoteFinding(
                    place,
                    sentence,
                    passage.heading,
                    float(scores[i]),
                    judged.judgements[i],
                    tuple(clauses.get(i, ())),
                )
                findings.append(finding)
        return findings

    def _read(self, places: Sequence[Place]) -> list[ReadSentence]:
        read = []
        for index, places_of_note in groupby(places, key=lambda place: place.document):
            headings = self.notes.headings(index)
            non_evidence = self.notes.non_evidence(index)
            document = self.notes.documents[index]
            case = Case(id="chart", sentences=self.notes.sentences(index))
            for place in places_of_note:
                may_answer = self.notes.text_index(place) in self._texts
                is_evidence = may_answer and place.sentence not in non_evidence
                # A report on an echo names it in its title.
                context = [document.title, document.kind]
                if leans_on_before(case, place.sentence):
                    context.append(case.sentences[place.sentence - 1].text)
                sentence = case.sentences[place.sentence]
                text = " ".join(sentence.text.split())
                heading = headings.get(place.sentence, "")
                passage = Passage(text, heading, " ".join(context))
                read.append(ReadSentence(place, sentence, passage, is_evidence))
        return read

    @cached_property
    def _folded_notes(self) -> str:
        return " ".join(self.notes.texts[index] for index in self._texts).casefold()
