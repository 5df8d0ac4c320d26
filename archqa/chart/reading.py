"""Which sentences of a patient's notes are read for a question, given what a search found."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from archqa.chart.chart_notes import ChartNotes, Place
from archqa.chart.note_search import Hit

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
