"""Traps in an ArchEHR-QA submission that cost points silently, each told in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .metric import FloatArray, Metric, ratio
from .rouge import rouge_tokens
from .sari import ngrams
from .submission import WORD_LIMIT, ParsedAnswer
from .texts import TextSample

# Reference answers to the 28 dev cases reach 0.3, the same behind the clinician's question 13.
OVERLAP_WORTH_A_WARNING = 10.0


@dataclass(frozen=True, kw_only=True)
class QuestionOverlap(Metric[TextSample]):
    """The percentage of the answers' runs of `n` words that stand in the question already (the text's source).

    Not an official score. Five of the six relevance metrics of 2025 have the question in their reference, so that
    echoing it raises them; a figure well above that of honest answers (a few percent) says how a high score came
    about.
    """

    name = "question_overlap"
    n: int = 3

    @property
    def width(self) -> int:
        """Runs that the question has, and all runs."""
        return 2

    def tally(self, case: TextSample) -> tuple[float, ...]:
        """(runs of the answer that are in the question, runs of the answer)."""
        runs, echoed = (
            ngrams(rouge_tokens(text), self.n) for text in (case.prediction, case.source)
        )
        return float(sum(count for run, count in runs.items() if run in echoed)), float(
            runs.total()
        )

    def value(self, total: FloatArray) -> FloatArray:
        """Percent of all runs of all answers."""
        return 100 * ratio(total[..., 0], total[..., 1])


def lint(answers: Sequence[ParsedAnswer], sentence_ids: Mapping[str, set[str]]) -> Iterator[str]:
    """Warnings about answers to known cases; `sentence_ids` is case id → the ids of its note."""
    for case_id, times in Counter(answer.case_id for answer in answers).items():
        if times > 1:
            yield f"case {case_id} is answered {times} times; each counts, as in the official script. Keep one."
    for answer in answers:
        yield from (
            f"case {answer.case_id}: {trap}"
            for trap in _traps(answer, sentence_ids[answer.case_id])
        )


def question_overlap_warning(overlap: float) -> str | None:
    """A warning when much of the answers is the question's own words (`overlap` in percent)."""
    if overlap < OVERLAP_WORTH_A_WARNING:
        return None
    return f"{overlap:.0f} % of the answers' word runs are the question's own; all relevance metrics but SARI reward it."


def _traps(answer: ParsedAnswer, known: set[str]) -> Iterator[str]:
    spaced = sorted(cited for cited in answer.citations if cited != cited.strip())
    unknown = sorted(cited for cited in answer.citations if cited.strip() not in known)
    if spaced:
        yield f"cites {_quoted(spaced)} with a space, which the official script takes for other ids; write |1,2|."
    if unknown:
        yield f"cites {_quoted(unknown)}, which the note does not have; each counts as a wrong citation."
    if not answer.citations:
        yield "cites nothing; the official script refuses the whole submission for that."
    if answer.citations and not answer.text:
        yield "has citations but no text; the official script fails on that (BLEU divides by zero)."
    if answer.words > WORD_LIMIT:
        yield f"has {answer.words} words; what follows word {WORD_LIMIT} is not scored."
        yield from _cut_citations(answer)


def _cut_citations(answer: ParsedAnswer) -> Iterator[str]:
    words_before, seen, lost = 0, set[str](), set[str]()
    for line in answer.lines:
        (seen if words_before < WORD_LIMIT or not line.text else lost).update(line.citations)
        words_before += len(line.text.split())
    if only_lost := sorted(lost - seen):
        yield f"cites {_quoted(only_lost)} only on lines past the word limit; they count, but no reader sees why."


def _quoted(ids: Sequence[str]) -> str:
    return ", ".join(f'"{cited}"' for cited in ids)
