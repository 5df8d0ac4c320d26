"""ROUGE (Lin 2004) by Google's `rouge_score`, as the official scripts call it.

No stemmer, F-measure, the mean over cases. Lsum is the summary-level form, which splits texts at
line breaks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
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
        scores = _scorer(self.variant).score(case.reference, case.prediction)
        return 100 * float(scores[f"rouge{self.variant}"].fmeasure)


def rouge_tokens(text: str) -> list[str]:
    """Lower-case runs of ASCII letters and digits, as `rouge_score` counts them."""
    from rouge_score.tokenize import tokenize

    return list(tokenize(text, stemmer=None))


@cache
def _scorer(variant: Variant) -> Any:
    """The scorer of a variant; imported on first use, because it imports nltk."""
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer([f"rouge{variant}"], use_stemmer=False)
