"""Notes that a program wrote: the same sentences from visit to visit, and names of resources."""

import re
from collections import defaultdict
from collections.abc import Collection

from archqa.chart.chart_notes import ChartNotes

_NUMBER = re.compile(r"\d+")
_FEW_NOTES = 2
"""Notes in which a sentence may stand, whatever its numbers, and be one of their own."""
_MAX_OWN_FRACTION = 0.25


def routine_notes(notes: ChartNotes, texts: Collection[int] | None) -> frozenset[int]:
    """Return the indices of the notes of which few sentences are their own.

    A sentence of its own says something that resources do not (`texts`, None for all), and stands
    in no more than two notes; numbers in it, such as an age, make no other sentence.
    """
    own = _own_sentences(notes, texts)
    counts = [0] * len(notes.documents)
    for index in own:
        for place in notes.places[index]:
            counts[place.document] += 1
    return frozenset(
        index
        for index, document in enumerate(notes.documents)
        if counts[index] < _MAX_OWN_FRACTION * len(document.numbers)
    )


def _own_sentences(notes: ChartNotes, texts: Collection[int] | None) -> list[int]:
    documents_of: dict[str, set[int]] = defaultdict(set)
    forms = [_NUMBER.sub("0", text.casefold()) for text in notes.texts]
    for form, places in zip(forms, notes.places, strict=True):
        documents_of[form].update(place.document for place in places)
    worth_it = range(len(notes.texts)) if texts is None else texts
    return [index for index in worth_it if len(documents_of[forms[index]]) <= _FEW_NOTES]
