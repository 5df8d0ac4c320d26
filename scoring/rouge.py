"""ROUGE (Lin 2004) by Google's `rouge_score`, as the official scripts call it.

No stemmer, F-measure, the mean over cases. Lsum is the summary-level form, which splits texts at
line breaks.

The library's table of common subsequences has a row for every word of the reference. A word that
the prediction lacks can match nothing, so L and Lsum are given the reference without those words,
and recall counts them again. The numbers are the same, and 100 cases take half the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

from .texts import TextMetric, TextSample

Variant = Literal["1", "2", "L", "Lsum"]


@dataclass(frozen=True, kw_only=True)
class Rouge(TextMetric):
    """F-measure in percent of unigrams (1), bigrams (2), or the longest subsequence (L, Lsum)."""

    name = "rouge"
    variant: Variant = "Lsum"

    def score(self, case: TextSample) -> float:
        """ROUGE of one prediction in percent."""
        if self.variant in ("L", "Lsum"):
            return 100 * _subsequence_f(self.variant, case)
        return 100 * float(_score(self.variant, case.reference, case.prediction).fmeasure)


@lru_cache(maxsize=4096)
def rouge_tokens(text: str) -> tuple[str, ...]:
    """Lower-case runs of ASCII letters and digits, as `rouge_score` counts them."""
    from rouge_score.tokenize import tokenize

    return tuple(tokenize(text, stemmer=None))


def _subsequence_f(variant: Variant, case: TextSample) -> float:
    """The F-measure of L or Lsum, 0 to 1."""
    from rouge_score.scoring import fmeasure

    predicted = len(rouge_tokens(case.prediction))
    expected = len(rouge_tokens(case.reference))
    if not predicted or not expected:
        return 0.0
    shared = _words_in_common(case.reference, case.prediction)
    precision = float(_score(variant, shared, case.prediction).precision)
    matches = round(precision * predicted)
    return float(fmeasure(precision, matches / expected))


def _words_in_common(reference: str, prediction: str) -> str:
    """The reference without the words that the prediction lacks, line by line."""
    predicted_words = set(rouge_tokens(prediction))
    lines = []
    for line in reference.split("\n"):
        kept = [word for word in rouge_tokens(line) if word in predicted_words]
        lines.append(" ".join(kept))
    return "\n".join(lines)


def _score(variant: Variant, reference: str, prediction: str) -> Any:
    """Precision, recall and F-measure by the library."""
    return _scorer(variant).score(reference, prediction)[f"rouge{variant}"]


class _CachedTokenizer:
    """The library's default tokenizer; texts that several variants read are split once."""

    def tokenize(self, text: str) -> tuple[str, ...]:
        return rouge_tokens(text)


@cache
def _scorer(variant: Variant) -> Any:
    """The scorer of a variant; imported on first use, because it imports nltk."""
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer([f"rouge{variant}"], tokenizer=_CachedTokenizer())
