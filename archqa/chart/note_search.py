"""Finds sentences in a patient's notes: ranks by words and by meaning, fused.

Words: BM25 (Robertson and Zaragoza, 2009) over the sentences of the patient's notes, with the words
of a note's title counted too. Meaning: the cosine of sentence vectors. The two orders are joined by
reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).
"""

from collections.abc import Collection, Sequence
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.chart.chart_notes import ChartNotes, Place
from archqa.chart.note_writer import Encode
from archqa.chart.search_terms import SearchTerm, search_terms
from archqa.terminology.words import stems

_K1, _B = 1.2, 0.5
"""BM25's saturation and its correction for length: sentences of notes are short anyway."""
_FUSION = 20.0
"""The constant of reciprocal rank fusion; 60 is usual where lists have thousands of entries."""
_TITLE_WEIGHT = 0.5
"""What a term counts that stands in the title of a note and not in the sentence."""

Scores = NDArray[np.float64]


class Hit(NamedTuple):
    """A text of the notes by its index, where it stands (the latest place), and its score."""

    text: int
    place: Place
    score: float


def search_notes(
    notes: ChartNotes,
    question: str,
    encode: Encode,
    documents: Collection[int] | None = None,
    texts: Collection[int] | None = None,
    count: int = 40,
) -> list[Hit]:
    """Return the sentences that fit a question best, the best first.

    `documents` are the indices of the notes to search, `texts` those of the sentences; None for
    all. A sentence that stands in several notes is found in the latest one.
    """
    if not notes.texts:
        return []
    places = _latest_places(notes, documents)
    if texts is not None:
        kept = set(texts)
        places = {text: place for text, place in places.items() if text in kept}
    by_words = word_scores(notes, search_terms(question), places)
    by_meaning = notes.vectors @ encode([question])[0]
    fused = _fuse([by_words, by_meaning.astype(np.float64)], places)
    order = [index for index in np.argsort(-fused, kind="stable")[:count] if fused[index] > 0]
    return [Hit(int(index), places[int(index)], float(fused[index])) for index in order]


def word_scores(notes: ChartNotes, terms: Sequence[SearchTerm], places: dict[int, Place]) -> Scores:
    """Return BM25 of every text for the terms."""
    scores = np.zeros(len(notes.texts))
    lengths = notes.word_counts
    norm = _K1 * (1 - _B + _B * lengths / max(lengths.mean(), 1.0))
    titles = [frozenset(stems(f"{one.title} {one.kind} {one.author}")) for one in notes.documents]
    for term in terms:
        texts = texts_with_term(notes, term)
        rarity = log(1 + (len(notes.texts) - len(texts) + 0.5) / (len(texts) + 0.5))
        matched = np.zeros(len(notes.texts))
        matched[list(texts)] = 1.0
        titled = {index for index, title in enumerate(titles) if term.is_in(title)}
        for text, place in places.items():
            if place.document in titled and not matched[text]:
                matched[text] = _TITLE_WEIGHT
        scores += rarity * matched * (_K1 + 1) / (matched + norm)
    return scores


def texts_with_term(notes: ChartNotes, term: SearchTerm) -> set[int]:
    """Return the indices of the texts that have one of a term's names, with all its words."""
    found: set[int] = set()
    for name in term.names:
        of_words = [set(notes.with_word(word)) for word in name]
        found |= set.intersection(*of_words) if of_words else set()
    return found


def _latest_places(notes: ChartNotes, documents: Collection[int] | None) -> dict[int, Place]:
    """Return the latest place of each text in the documents; documents are the latest first."""
    places = {}
    allowed = None if documents is None else set(documents)
    for text, of_text in enumerate(notes.places):
        for place in of_text:
            if allowed is None or place.document in allowed:
                places[text] = place
                break
    return places


def _fuse(all_scores: Sequence[Scores], places: dict[int, Place]) -> Scores:
    """Return the sum of reciprocal ranks; 0 for a text without a place or without a score."""
    fused = np.zeros(len(all_scores[0]))
    allowed = np.zeros(len(fused), dtype=bool)
    allowed[list(places)] = True
    for scores in all_scores:
        order = np.argsort(-np.where(allowed, scores, -np.inf), kind="stable")
        for rank, index in enumerate(order.tolist(), start=1):
            if not allowed[index]:
                break
            if scores[index] > 0:
                fused[index] += 1 / (_FUSION + rank)
    return fused
