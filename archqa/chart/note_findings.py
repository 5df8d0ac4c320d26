"""The sentences of a patient's notes that answer a question, by the embedded engine.

What a search finds is read by the engine's network for short questions; its logit and what the
sentence is about (`relevance.py`) decide together.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

import numpy as np

from archqa.chart.chart_notes import ChartNotes, Place
from archqa.chart.note_limits import NO_LIMITS, NoteLimits
from archqa.chart.note_search import Hit, search_notes
from archqa.chart.note_writer import Encode
from archqa.chart.reading import places_to_read
from archqa.chart.relevance import ReadSentence, Relevance
from archqa.chart.search_terms import names_in
from archqa.core.case import Case, Sentence
from archqa.engine.answer_finder import AnswerFinder, ClauseScore

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
