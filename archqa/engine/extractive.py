"""The extractive answer: selected sentences, compressed until they fit, each with its citation.

How many words each sentence gets is a knapsack problem: a variant of a sentence is worth the square
of the sentence's probability times the share of its content that is left. A sentence without a line
of its own is cited on a line that it supports, else on a last line that states nothing
(`SEE_ALSO`): the contest counts every citation, and no line may cite what does not support it.
"""

import re
from typing import NamedTuple

from archqa.core.answer import SEE_ALSO, CitedAnswer, Claim
from archqa.core.case import Case
from archqa.engine.compression import SentenceVariant, scope_words, sentence_variants
from archqa.engine.question import question_with_phrases
from archqa.errors import CallerError
from archqa.terminology.topics import topics_of
from archqa.terminology.words import stems

MIN_WORDS = 10
MAX_LINES = 40
"""Sentences that compete for a line: more could never fit."""
POINTER = "The record answers this in the cited sentence."
"""The answer when even the shortest variant of every sentence is too long to quote."""
SEE_ALSO_WORDS = len(SEE_ALSO.split())
_WORD = re.compile(r"[^\W_]+(?:[.,/:-]\d+)*")


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
    # The most relevant candidates that have words compete for lines, in note order.
    with_words = [candidate for candidate in candidates if candidate.variants]
    by_relevance = sorted(with_words, key=lambda candidate: -candidate.relevance)
    competing = {candidate.id for candidate in by_relevance[:MAX_LINES]}
    for_lines = [candidate for candidate in with_words if candidate.id in competing]
    lines = _pack_lines(for_lines, word_limit)
    if _uncited(lines, candidates):
        lines = _pack_lines(for_lines, word_limit - SEE_ALSO_WORDS)
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
    question_terms = frozenset(stems(question)) | topics_of(question)
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


def _pack_lines(candidates: list[Candidate], word_limit: int) -> list[Line]:
    """Choose at most one variant of every sentence within `word_limit` (0/1 knapsack, exact).

    The value weighs what surely answers over what may, and presence over completeness: the
    probability is squared so that two doubtful sentences do not displace a certain, longer one.
    """
    best = [Packing(0.0, ())] * (word_limit + 1)  # by number of words
    for index, candidate in enumerate(candidates):
        improved = list(best)
        for variant_index, variant in enumerate(candidate.variants):
            gain = (0.05 + candidate.relevance**2) * (0.8 + 0.2 * variant.content_kept)
            for words in range(variant.word_count, len(best)):
                before = best[words - variant.word_count]
                value = before.value + gain
                if value > improved[words].value + 1e-12:
                    improved[words] = Packing(
                        value, (*before.choices, (index, variant_index))
                    )
        best = improved
    lines = []
    for index, variant_index in best[word_limit].choices:
        candidate = candidates[index]
        variant = candidate.variants[variant_index]
        lines.append(Line(candidate.id, variant.text))
    return lines


def _cite_all(lines: list[Line], candidates: list[Candidate]) -> tuple[Claim, ...]:
    """Return the lines as claims in note order, with the id of every candidate on one claim."""
    citations: dict[str, list[str]] = {line.sentence_id: [] for line in lines}
    for candidate in candidates:
        if candidate.id in citations:
            citations[candidate.id].append(candidate.id)
            continue
        line = _supported_line(candidate, lines)
        if line:
            citations[line.sentence_id].append(candidate.id)
    claims = []
    for line in lines:
        claims.append(
            Claim(text=line.text, citations=tuple(citations[line.sentence_id]))
        )
    uncited = _uncited(lines, candidates)
    if uncited:
        claims.append(Claim(text=SEE_ALSO, citations=uncited))
    return tuple(claims)


def _uncited(lines: list[Line], candidates: list[Candidate]) -> tuple[str, ...]:
    """Return the ids of the candidates that have no line and support none."""
    with_line = {line.sentence_id for line in lines}
    uncited = []
    for candidate in candidates:
        if candidate.id not in with_line and not _supported_line(candidate, lines):
            uncited.append(candidate.id)
    return tuple(uncited)


def _supported_line(candidate: Candidate, lines: list[Line]) -> Line | None:
    """Return the first line that the candidate repeats, or None.

    It has every word of the line, and negates or doubts nothing more.
    """
    words = _words(candidate.text)
    scope = scope_words(candidate.text)
    for line in lines:
        if _words(line.text) <= words and scope <= scope_words(line.text):
            return line
    return None


def _words(text: str) -> frozenset[str]:
    """Return the words in lower case, numbers whole (`38,000`, `1.5`, `7/22/93`)."""
    return frozenset(_WORD.findall(text.lower()))
