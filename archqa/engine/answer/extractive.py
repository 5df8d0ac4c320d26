"""The extractive answer: selected sentences, compressed until they fit, each with its citation.

How many words each sentence gets is a knapsack problem: a variant of a sentence is worth the
sentence's probability times the share of its content that is left. A sentence without a line of
its own is cited on the line that shares most with it, or else on the nearest line.
"""

from typing import NamedTuple

from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case
from archqa.engine.answer.compression import SentenceVariant, sentence_variants
from archqa.engine.question import question_with_phrases
from archqa.errors import CallerError
from archqa.notes.concepts import concept_names
from archqa.notes.tokens import extract_numbers, stems

MIN_WORDS = 10
MAX_LINES = 40
"""Sentences that compete for a line: more could never fit."""
POINTER = "The record answers this in the cited sentence."
"""The answer when even the shortest variant of every sentence is too long to quote."""


class Candidate(NamedTuple):
    """A selected sentence, its probability, and its variants from full to shortest."""

    id: str
    text: str
    relevance: float
    variants: tuple[SentenceVariant, ...]


class Line(NamedTuple):
    """A line of the answer and the id of the sentence it was made from."""

    sentence_id: str
    text: str


class Packing(NamedTuple):
    """A choice of variants, as pairs of candidate and variant index, and its total value."""

    value: float
    choices: tuple[tuple[int, int], ...]


def compose(
    case: Case,
    evidence: frozenset[str],
    relevance: dict[str, float],
    word_limit: int,
) -> CitedAnswer:
    """Compose an answer of at most `word_limit` words that cites every id of `evidence` once.

    `relevance` is the probability of every sentence by its id. Raises CallerError below 10 words.
    """
    if word_limit < MIN_WORDS:
        raise CallerError(
            f"An answer of {word_limit} words cannot be written.\nAllow at least {MIN_WORDS}."
        )
    candidates = _candidates(case, evidence, relevance)
    lines = _pack_lines(_candidates_for_lines(candidates), word_limit)
    if not lines:
        ids = case.in_note_order(evidence)
        return CitedAnswer(claims=(Claim(text=POINTER, citations=ids),))
    return CitedAnswer(claims=_cite_all(lines, candidates))


def _candidates(
    case: Case,
    evidence: frozenset[str],
    relevance: dict[str, float],
) -> list[Candidate]:
    """Return the evidence in note order with its variants."""
    question = question_with_phrases(case)
    question_terms = frozenset(stems(question)) | concept_names(question)
    sentence_by_id = {sentence.id: sentence for sentence in case.sentences}
    candidates = []
    for sentence_id in case.in_note_order(evidence):
        sentence = sentence_by_id[sentence_id]
        candidate = Candidate(
            id=sentence_id,
            text=sentence.text,
            relevance=relevance[sentence_id],
            variants=sentence_variants(sentence, question_terms),
        )
        candidates.append(candidate)
    return candidates


def _candidates_for_lines(candidates: list[Candidate]) -> list[Candidate]:
    """Return the most relevant candidates that have words, in note order."""
    with_words = [candidate for candidate in candidates if candidate.variants]
    by_relevance = sorted(with_words, key=lambda candidate: -candidate.relevance)
    ids = {candidate.id for candidate in by_relevance[:MAX_LINES]}
    return [candidate for candidate in with_words if candidate.id in ids]


def _pack_lines(candidates: list[Candidate], word_limit: int) -> list[Line]:
    """Choose at most one variant of every sentence within `word_limit` (0/1 knapsack, exact)."""
    best = [Packing(0.0, ())] * (word_limit + 1)  # by number of words
    for index, candidate in enumerate(candidates):
        best = _pack_candidate(best, index, candidate)
    lines = []
    for index, variant_index in best[word_limit].choices:
        candidate = candidates[index]
        variant = candidate.variants[variant_index]
        lines.append(Line(candidate.id, variant.text))
    return lines


def _pack_candidate(best: list[Packing], index: int, candidate: Candidate) -> list[Packing]:
    """Return the best packing for every number of words when one more candidate may be used."""
    improved = list(best)
    for variant_index, variant in enumerate(candidate.variants):
        gain = _value(candidate, variant)
        choice = (index, variant_index)
        for words in range(variant.word_count, len(best)):
            before = best[words - variant.word_count]
            value = before.value + gain
            if value > improved[words].value + 1e-12:
                improved[words] = Packing(value, (*before.choices, choice))
    return improved


def _value(candidate: Candidate, variant: SentenceVariant) -> float:
    """Weigh presence over completeness: more evidence in brief beats less evidence in full."""
    return (0.05 + candidate.relevance) * (0.6 + 0.4 * variant.content_kept)


def _cite_all(lines: list[Line], candidates: list[Candidate]) -> tuple[Claim, ...]:
    """Return the lines as claims in note order, with the id of every candidate on one of them."""
    citations: dict[str, list[str]] = {line.sentence_id: [] for line in lines}
    order = {candidate.id: position for position, candidate in enumerate(candidates)}
    for candidate in candidates:
        line_id = candidate.id
        if line_id not in citations:
            line_id = _most_similar_line(candidate, lines, order).sentence_id
        citations[line_id].append(candidate.id)
    claims = []
    for line in lines:
        ids = tuple(citations[line.sentence_id])
        claims.append(Claim(text=line.text, citations=ids))
    return tuple(claims)


def _most_similar_line(candidate: Candidate, lines: list[Line], order: dict[str, int]) -> Line:
    content_words = 1 + len(frozenset(stems(candidate.text)))

    def similarity(line: Line) -> tuple[float, int]:
        distance = abs(order[candidate.id] - order[line.sentence_id])
        shared = _shared_content(candidate.text, line.text)
        return shared / content_words, -distance

    return max(lines, key=similarity)


def _shared_content(sentence: str, line: str) -> int:
    """Count the content words, numbers and (twice) concepts that both texts have."""
    shared_stems = frozenset(stems(sentence)) & frozenset(stems(line))
    shared_concepts = concept_names(sentence) & concept_names(line)
    shared_numbers = extract_numbers(sentence) & extract_numbers(line)
    return len(shared_stems) + 2 * len(shared_concepts) + len(shared_numbers)
