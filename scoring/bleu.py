"""BLEU as HF evaluate 0.4 computes it: one case at a time, unsmoothed, then the mean over cases.

Papineni et al. 2002 in the form of tensorflow/nmt's `compute_bleu` with 13a tokens, case-sensitive, one reference.
Differs from a corpus BLEU (sacrebleu): here one n-gram order without any match makes the whole case 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .texts import TextMetric, TextSample
from .tokens import tokenize_13a


@dataclass(frozen=True, kw_only=True)
class Bleu(TextMetric):
    """Geometric mean of clipped n-gram precisions up to `max_order`, times the brevity penalty; 0 to 100."""

    name = "bleu"
    max_order: int = 4

    def score(self, case: TextSample) -> float:
        """BLEU of one prediction in percent."""
        return 100 * bleu(
            tokenize_13a(case.prediction), tokenize_13a(case.reference), self.max_order
        )


def bleu(prediction: Sequence[str], reference: Sequence[str], max_order: int = 4) -> float:
    """BLEU (0 to 1) of one tokenised prediction; 0 when any order has no match or the prediction has no token."""
    precisions = [
        _clipped_precision(prediction, reference, order) for order in range(1, max_order + 1)
    ]
    if min(precisions) == 0:
        return 0.0
    geometric_mean = math.exp(sum(math.log(precision) for precision in precisions) / max_order)
    return geometric_mean * min(1.0, math.exp(1 - len(reference) / len(prediction)))


def ngrams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    """How often each run of `order` tokens occurs."""
    return Counter(zip(*(tokens[start:] for start in range(order)), strict=False))


def _clipped_precision(prediction: Sequence[str], reference: Sequence[str], order: int) -> float:
    possible = len(prediction) - order + 1
    matches = (ngrams(prediction, order) & ngrams(reference, order)).total()
    return matches / possible if possible > 0 else 0.0
