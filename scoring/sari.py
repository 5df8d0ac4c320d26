"""SARI as HF evaluate 0.4 computes it: what an answer keeps, deletes and adds against its source and one reference.

Xu et al. 2016 with the corrections of EASSE (Alva-Manchego et al. 2019): nothing over nothing is 1, and keep recall
is over the sum of kept counts. Lower case, 13a tokens, orders 1 to 4, already 0 to 100. Deleting and adding nothing
that could be is also rewarded, so that an empty answer would score about 50: hence the floor of 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .bleu import ngrams
from .texts import ReferenceKind, TextMetric, TextSample
from .tokens import tokenize_13a

Ngrams = Counter[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Sari(TextMetric):
    """Mean of keep F1, deletion precision and addition F1; the source is the question."""

    name = "sari"
    against: ReferenceKind = "essential"
    source: Literal["question", "narrative"] = "question"

    def score(self, case: TextSample) -> float:
        """SARI of one prediction, 0 to 100."""
        return 100 * sari(
            *(_tokens(text) for text in (case.source, case.prediction, case.reference))
        )


def sari(source: Sequence[str], prediction: Sequence[str], reference: Sequence[str]) -> float:
    """SARI (0 to 1) of one tokenised prediction against one reference."""
    orders = [
        [ngrams(tokens, order) for tokens in (source, prediction, reference)]
        for order in range(1, 5)
    ]
    operations = [operation(*grams) for operation in (_keep, _delete, _add) for grams in orders]
    return sum(operations) / len(operations)


def _tokens(text: str) -> list[str]:
    # The official code splits the joined tokens at spaces, which makes of an empty text one empty token.
    return tokenize_13a(text.lower()) or [""]


def _keep(source: Ngrams, prediction: Ngrams, reference: Ngrams) -> float:
    kept, keepable = source & prediction, source & reference
    good = kept & reference
    recall = good.total() / keepable.total() if keepable else 1.0
    return _harmonic(_mean_share(good, kept), recall)


def _delete(source: Ngrams, prediction: Ngrams, reference: Ngrams) -> float:
    deleted = source - prediction
    return _mean_share(deleted - reference, deleted)


def _add(source: Ngrams, prediction: Ngrams, reference: Ngrams) -> float:
    added, addable = prediction.keys() - source.keys(), reference.keys() - source.keys()
    good = len(added & reference.keys())
    return _harmonic(_share(good, added), _share(good, addable))


def _mean_share(good: Mapping[Any, int], all_of: Mapping[Any, int]) -> float:
    """The mean over distinct n-grams of the share of their occurrences that is good."""
    return sum(good[gram] / all_of[gram] for gram in good) / len(all_of) if all_of else 1.0


def _share(good: int, of: Iterable[Any]) -> float:
    total = len(set(of))
    return good / total if total else 1.0


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision > 0 or recall > 0 else 0.0
