"""The cited answer: the chosen sentences, shortened until they fit, each id on the line of its content.

Which sentence gets how many words is a knapsack: a wording is worth the sentence's probability times the
share of it that is kept. A sentence that gets no line of its own is cited on the line that says most of it, or else
on the nearest one.
"""

from typing import NamedTuple

from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case
from archqa.engine.answer.compression import SentenceVariant, sentence_variants
from archqa.engine.question import question_text
from archqa.errors import CallerError
from archqa.notes.concepts import concept_names
from archqa.notes.tokens import extract_numbers, stems

LEAST_WORDS = 10
MOST_LINES = 40
"""Sentences that compete for a line: more could never fit."""
POINTER = "The record answers this in the cited sentence."
"""What is said when even the shortest wording of every sentence is too long: a claim is never cut mid-sentence."""


class Offer(NamedTuple):
    """A chosen sentence with the ways to say it."""

    id: str
    text: str
    worth: float
    ways: tuple[SentenceVariant, ...]


def compose(
    case: Case, chosen: frozenset[str], worth: dict[str, float], word_limit: int
) -> CitedAnswer:
    """At most `word_limit` words; every line cited, every chosen id cited once. Raises CallerError below 10 words."""
    if word_limit < LEAST_WORDS:
        raise CallerError(
            f"An answer of {word_limit} words cannot be written.\nAllow at least {LEAST_WORDS}."
        )
    ids = case.in_note_order(chosen)
    question = " ".join([question_text(case), *(phrase.text for phrase in case.patient_question)])
    wanted = frozenset(stems(question)) | concept_names(question)
    of = {sentence.id: sentence for sentence in case.sentences}
    offers = [
        Offer(sid, of[sid].text, worth[sid], sentence_variants(of[sid], wanted)) for sid in ids
    ]
    able = sorted((offer for offer in offers if offer.ways), key=lambda offer: -offer.worth)[
        :MOST_LINES
    ]
    lines = _packed(sorted(able, key=lambda offer: ids.index(offer.id)), word_limit)
    if not lines:
        return CitedAnswer(claims=(Claim(text=POINTER, citations=ids),))
    return CitedAnswer(claims=_with_the_rest(lines, offers))


def _packed(offers: list[Offer], limit: int) -> list[tuple[Offer, str]]:
    """The best choice of one wording or none for each sentence within `limit` words (0/1 knapsack, exact)."""
    best: list[tuple[float, tuple[tuple[int, int], ...]]] = [(0.0, ())] * (limit + 1)
    for place, offer in enumerate(offers):
        update = list(best)
        for way, wording in enumerate(offer.ways):
            for room in range(wording.words, limit + 1):
                value, taken = best[room - wording.words]
                if value + _value(offer, wording) > update[room][0] + 1e-12:
                    update[room] = (value + _value(offer, wording), (*taken, (place, way)))
        best = update
    return [(offers[place], offers[place].ways[way].text) for place, way in best[limit][1]]


def _value(offer: Offer, wording: SentenceVariant) -> float:
    """Most for being there, the rest for being complete: more evidence said briefly beats less said in full."""
    return (0.05 + offer.worth) * (0.6 + 0.4 * wording.kept)


def _with_the_rest(lines: list[tuple[Offer, str]], offers: list[Offer]) -> tuple[Claim, ...]:
    """Claims in note order; a sentence without a line is cited on the one that says most of it, or else nearest."""
    cited: dict[str, list[str]] = {offer.id: [] for offer, _ in lines}
    order = [offer.id for offer in offers]
    for offer in offers:
        home = (
            offer.id
            if offer.id in cited
            else max(lines, key=lambda line: _likeness(offer, line, order))[0].id
        )
        cited[home].append(offer.id)
    return tuple(Claim(text=text, citations=tuple(cited[offer.id])) for offer, text in lines)


def _likeness(offer: Offer, line: tuple[Offer, str], order: list[str]) -> tuple[float, int]:
    distance = abs(order.index(offer.id) - order.index(line[0].id))
    return _shared(offer, line[1]) / (1 + len(frozenset(stems(offer.text)))), -distance


def _shared(offer: Offer, line: str) -> int:
    """Content words, numbers and (doubly) concepts of a sentence that a line says too."""
    words = len(frozenset(stems(offer.text)) & frozenset(stems(line)))
    return (
        words
        + 2 * len(concept_names(offer.text) & concept_names(line))
        + len(extract_numbers(offer.text) & extract_numbers(line))
    )
