"""SARI as HF evaluate 0.4 computes it, with a single reference; 13a tokens by sacrebleu.

Own code: the official number is that of HF evaluate's metric script, which the package `evaluate`
downloads from a hub when it is used; no package computes it offline.

SARI compares the n-grams that an answer keeps, deletes and adds, relative to its source, with those
of the reference. Xu et al. 2016 with the corrections of EASSE (Alva-Manchego et al. 2019): 0 / 0 is
1, and the denominator of keep recall is the sum of counts. Lower case, 13a tokens, orders 1 to 4.
An empty answer would score about 50, since it adds nothing wrong: hence the floor of 0.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .texts import ReferenceKind, TextMetric, TextSample, tokenize_13a

Ngram = tuple[str, ...]
Ngrams = Mapping[Ngram, int]

ORDERS = (1, 2, 3, 4)


@dataclass(frozen=True, kw_only=True)
class Sari(TextMetric):
    """Mean of keep F1, deletion precision and addition F1; the source is the question."""

    name = "sari"
    against: ReferenceKind = "essential"
    source: Literal["question", "narrative"] = "question"

    def score(self, case: TextSample) -> float:
        """SARI of one prediction, 0 to 100."""
        tokens = []
        for text in (case.source, case.prediction, case.reference):
            # The official code splits the joined tokens at spaces: of no token remains an empty one.
            tokens.append(tokenize_13a(text.lower()) or ("",))
        return 100 * sari(*tokens)


def sari(
    source: Sequence[str],
    prediction: Sequence[str],
    reference: Sequence[str],
) -> float:
    """SARI (0 to 1) of one tokenised prediction against one reference."""
    scores = []
    for order in ORDERS:
        source_ngrams = ngrams(source, order)
        prediction_ngrams = ngrams(prediction, order)
        reference_ngrams = ngrams(reference, order)

        kept = _in_both(source_ngrams, prediction_ngrams)
        should_keep = _in_both(source_ngrams, reference_ngrams)
        correctly_kept = _in_both(kept, reference_ngrams)
        recall = 1.0
        if should_keep:
            recall = sum(correctly_kept.values()) / sum(should_keep.values())
        scores.append(_harmonic_mean(_mean_precision(correctly_kept, kept), recall))

        deleted = _surplus(source_ngrams, prediction_ngrams)
        scores.append(_mean_precision(_surplus(deleted, reference_ngrams), deleted))

        added = prediction_ngrams.keys() - source_ngrams.keys()
        should_add = reference_ngrams.keys() - source_ngrams.keys()
        correctly_added = len(added & reference_ngrams.keys())
        precision = correctly_added / len(added) if added else 1.0
        recall = correctly_added / len(should_add) if should_add else 1.0
        scores.append(_harmonic_mean(precision, recall))
    return sum(scores) / len(scores)


def ngrams(tokens: Sequence[str], order: int) -> Counter[Ngram]:
    """How often each run of `order` tokens occurs."""
    shifted = [tokens[start:] for start in range(order)]
    return Counter(zip(*shifted, strict=False))


def _in_both(one: Ngrams, other: Ngrams) -> Ngrams:
    """`Counter.__and__`, in a third of the time."""
    shared = {}
    for ngram, count in one.items():
        if ngram in other:
            shared[ngram] = min(count, other[ngram])
    return shared


def _surplus(one: Ngrams, other: Ngrams) -> Ngrams:
    """`Counter.__sub__`, in a third of the time."""
    surplus = {}
    for ngram, count in one.items():
        remaining = count - other.get(ngram, 0)
        if remaining > 0:
            surplus[ngram] = remaining
    return surplus


def _mean_precision(correct: Ngrams, total: Ngrams) -> float:
    """The mean over distinct n-grams of the share of correct occurrences; 1 without any n-gram."""
    if not total:
        return 1.0
    shares = []
    for ngram, count in correct.items():
        shares.append(count / total[ngram])
    return sum(shares) / len(total)


def _harmonic_mean(precision: float, recall: float) -> float:
    if precision <= 0 and recall <= 0:
        return 0.0
    return 2 * precision * recall / (precision + recall)
