"""Sentences of a note that are never evidence, and the heading that each sentence stands under."""

from archqa.core.case import Case
from archqa.notes.excluded import non_evidence_reasons
from archqa.notes.sections import sentence_positions


def non_evidence_indices(case: Case) -> frozenset[int]:
    """Return the indices of headings, separators, table rules, signatures and excluded text."""
    indices = set(non_evidence_reasons(case))
    for index, position in enumerate(sentence_positions(case)):
        if position.heading:
            indices.add(index)
    return frozenset(indices)


def headings_of_sentences(case: Case) -> dict[int, str]:
    """Return, by index, the heading that a sentence stands under; none before the first heading."""
    headings = {}
    heading = ""
    for index, position in enumerate(sentence_positions(case)):
        if position.heading:
            heading = case.sentences[index].text
        elif heading:
            headings[index] = heading
    return headings
