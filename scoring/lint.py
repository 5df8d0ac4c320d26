"""Warnings about an ArchEHR-QA submission: mistakes that lower its scores without an error."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .id_lists import list_ids
from .metric import FloatArray, Metric, ratio
from .rouge import rouge_tokens
from .sari import ngrams
from .submission import WORD_LIMIT, ParsedAnswer
from .texts import TextSample

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# Reference answers to the 28 dev cases reach 0.3; with the clinician's question before them, 13.
OVERLAP_WARNING_THRESHOLD = 10.0


@dataclass(frozen=True, kw_only=True)
class QuestionOverlap(Metric[TextSample]):
    """The percentage of the answers' word n-grams that are in the question (the sample's source).

    Not an official score. Five of the six relevance metrics of 2025 have the question in their
    reference, so that repeating it raises them. Answers that do not repeat it reach a few percent.
    """

    name = "question_overlap"
    n: int = 3

    @property
    def width(self) -> int:
        """N-grams that the question has, and all n-grams."""
        return 2

    def tally(self, case: TextSample) -> tuple[float, ...]:
        """(n-grams of the answer that are in the question, n-grams of the answer)."""
        answer_ngrams = ngrams(rouge_tokens(case.prediction), self.n)
        question_ngrams = ngrams(rouge_tokens(case.source), self.n)
        repeated = 0
        for ngram, count in answer_ngrams.items():
            if ngram in question_ngrams:
                repeated += count
        return float(repeated), float(answer_ngrams.total())

    def value(self, total: FloatArray) -> FloatArray:
        """Percent of all n-grams of all answers."""
        return 100 * ratio(total[..., 0], total[..., 1])


def lint(answers: Sequence[ParsedAnswer], sentence_ids: Mapping[str, set[str]]) -> Iterator[str]:
    """Warnings about answers; `sentence_ids` maps a case id to its note's sentence ids."""
    counts = Counter(answer.case_id for answer in answers)
    for case_id, count in counts.items():
        if count > 1:
            rule = "each counts, as in the official script. Keep one."
            yield f"case {case_id} is answered {count} times; {rule}"
    for answer in answers:
        for warning in _answer_warnings(answer, sentence_ids[answer.case_id]):
            yield f"case {answer.case_id}: {warning}"


def number_id_warning(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A warning about case ids that are numbers in a submission."""
    numbers = [row["case_id"] for row in rows if not isinstance(row["case_id"], str)]
    if not numbers:
        return []
    effect = "the official script takes them for other cases and refuses the whole submission"
    return [f'{len(numbers)} case ids are numbers; {effect}. Write texts, as in "case_id": "1".']


def surrogate_warning(case_id: str, text: str) -> list[str]:
    """A warning about half of a surrogate pair in a text, which is no character."""
    if not LONE_SURROGATE.search(text):
        return []
    effect = "which the official script cannot encode: it refuses the whole submission"
    return [f"case {case_id}: has half of a surrogate pair (\\ud800 to \\udfff), {effect}."]


def encodable(text: str) -> str:
    """The text with the replacement character for each half of a surrogate pair."""
    return LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def question_overlap_warning(overlap: float) -> str | None:
    """A warning when the answers repeat much of the question (`overlap` in percent)."""
    if overlap < OVERLAP_WARNING_THRESHOLD:
        return None
    share = f"{overlap:.0f} % of the answers' word runs are the question's own"
    return f"{share}; all relevance metrics but SARI reward it."


def _answer_warnings(answer: ParsedAnswer, sentence_ids: set[str]) -> Iterator[str]:
    cited_ids = sorted(answer.citations)
    spaced = [cited for cited in cited_ids if cited != cited.strip()]
    unknown = [cited for cited in cited_ids if cited.strip() not in sentence_ids]
    if spaced:
        effect = "with a space, which the official script takes for other ids; write |1,2|."
        yield f"cites {_quoted(spaced)} {effect}"
    if unknown:
        effect = "which the note does not have; each counts as a wrong citation."
        yield f"cites {_quoted(unknown)}, {effect}"
    if not answer.citations:
        yield "cites nothing; the official script refuses the whole submission for that."
    if answer.citations and not answer.text:
        yield "has citations but no text; the official script fails on that (BLEU divides by zero)."
    if answer.words > WORD_LIMIT:
        yield f"has {answer.words} words; what follows word {WORD_LIMIT} is not scored."
        yield from _cut_citation_warnings(answer)


def _cut_citation_warnings(answer: ParsedAnswer) -> Iterator[str]:
    """A warning for ids that are cited only on lines beyond the word limit."""
    words_before = 0
    visible: set[str] = set()
    cut: set[str] = set()
    for line in answer.lines:
        if words_before < WORD_LIMIT or not line.text:
            visible.update(line.citations)
        else:
            cut.update(line.citations)
        words_before += len(line.text.split())
    only_cut = sorted(cut - visible)
    if only_cut:
        effect = "only on lines past the word limit; they count, but no reader sees why."
        yield f"cites {_quoted(only_cut)} {effect}"


def _quoted(ids: Sequence[str]) -> str:
    return list_ids([f'"{cited}"' for cited in ids])
