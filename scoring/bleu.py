"""BLEU (Papineni et al. 2002) by sacrebleu, as HF evaluate 0.4 computes it: the mean over cases.

13a tokens, case-sensitive, one reference, no smoothing: a case without a match in any n-gram order
scores 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from .texts import TextMetric, TextSample


@dataclass(frozen=True, kw_only=True)
class Bleu(TextMetric):
    """Geometric mean of clipped n-gram precisions times the brevity penalty; 0 to 100."""

    name = "bleu"
    max_order: int = 4

    def score(self, case: TextSample) -> float:
        """BLEU of one prediction in percent."""
        result = _scorer(self.max_order).corpus_score([case.prediction], [[case.reference]])
        return float(result.score)


@cache
def _scorer(max_order: int) -> Any:
    """Unsmoothed BLEU; `force` suppresses warnings about tokenised input."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(max_ngram_order=max_order, smooth_method="none", tokenize="13a", force=True)
