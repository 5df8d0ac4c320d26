"""BLEU (Papineni et al. 2002) by sacrebleu, as HF evaluate 0.4 computes it: the mean over cases.

13a tokens, case-sensitive, one reference, no smoothing: a case without a match in any n-gram order
scores 0.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from .texts import TextMetric, TextSample, tokenize_13a


@dataclass(frozen=True, kw_only=True)
class Bleu(TextMetric):
    """Geometric mean of clipped n-gram precisions times the brevity penalty; 0 to 100."""

    name = "bleu"
    max_order: int = 4

    def score(self, case: TextSample) -> float:
        """BLEU of one prediction in percent."""
        # Split here rather than by sacrebleu, because `tokenize_13a` splits what recurs once.
        prediction = " ".join(tokenize_13a(case.prediction.rstrip()))
        reference = " ".join(tokenize_13a(case.reference.rstrip()))
        scorer = _scorer(self.max_order)
        result = scorer.corpus_score([prediction], [[reference]])
        return float(result.score)


@cache
def _scorer(max_order: int) -> Any:
    """Unsmoothed BLEU of tokenised texts; `force` suppresses the warnings about them."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(
        max_ngram_order=max_order,
        smooth_method="none",
        tokenize="none",
        force=True,
    )
