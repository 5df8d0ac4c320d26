"""ROUGE as Google's rouge_score 0.1.2 computes it (no stemmer, F-measure): n-gram and longest-common-subsequence
overlap.

Lin 2004. Lsum is the summary-level form: texts are split at line breaks, every reference line is matched with the
union of its common subsequences with all predicted lines, and each token counts at most as often as either text has
it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .bleu import ngrams
from .texts import TextMetric, TextSample

Tokens = Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Rouge(TextMetric):
    """F-measure in percent of unigrams (1), bigrams (2), one subsequence (L) or one a line (Lsum)."""

    name = "rouge"
    variant: Literal["1", "2", "L", "Lsum"] = "Lsum"

    def score(self, case: TextSample) -> float:
        """ROUGE of one prediction in percent."""
        if self.variant == "Lsum":
            return 100 * rouge_lsum(_lines(case.reference), _lines(case.prediction))
        reference, prediction = rouge_tokens(case.reference), rouge_tokens(case.prediction)
        return 100 * (
            rouge_l(reference, prediction)
            if self.variant == "L"
            else rouge_n(reference, prediction, order=int(self.variant))
        )


def rouge_tokens(text: str) -> list[str]:
    """Lower-case runs of ASCII letters and digits."""
    return re.findall(r"[a-z0-9]+", text.lower())


def rouge_n(reference: Tokens, prediction: Tokens, order: int) -> float:
    """F-measure (0 to 1) of the n-grams of one order."""
    expected, found = ngrams(reference, order), ngrams(prediction, order)
    return _f_measure((expected & found).total(), expected.total(), found.total())


def rouge_l(reference: Tokens, prediction: Tokens) -> float:
    """F-measure (0 to 1) of the longest common subsequence."""
    return _f_measure(
        len(_common_subsequence(reference, prediction)), len(reference), len(prediction)
    )


def rouge_lsum(reference: Sequence[Tokens], prediction: Sequence[Tokens]) -> float:
    """F-measure (0 to 1) at summary level; both texts as their lines."""
    left = Counter(token for line in reference for token in line) & Counter(
        token for line in prediction for token in line
    )
    hits = 0
    for line in reference:
        union = {place for other in prediction for place in _common_subsequence(line, other)}
        for place in union:
            hits += left[line[place]] > 0
            left[line[place]] -= 1
    return _f_measure(hits, sum(map(len, reference)), sum(map(len, prediction)))


def _lines(text: str) -> list[list[str]]:
    return [rouge_tokens(line) for line in text.split("\n") if line]


def _f_measure(hits: int, expected: int, found: int) -> float:
    if hits == 0:
        return 0.0
    precision, recall = hits / found, hits / expected
    return 2 * precision * recall / (precision + recall)


def _common_subsequence(reference: Tokens, prediction: Tokens) -> list[int]:
    """The places in `reference` of one longest common subsequence.

    Of several, rouge_score's: read from the end, step back in the prediction only where that alone keeps the length.
    Row i of the usual table is kept as bits, bit j set where the length grows from column j to j + 1 (Hyyrö 2004), so
    that a row costs a few operations on one whole number.
    """
    rows, i, j, places = _growth_rows(reference, prediction), len(reference), len(prediction), []
    while i and j:
        if reference[i - 1] == prediction[j - 1]:
            i, j = i - 1, j - 1
            places.append(i)
        elif _length(rows[i], j - 1) > _length(rows[i - 1], j):
            j -= 1
        else:
            i -= 1
    return places


def _growth_rows(reference: Tokens, prediction: Tokens) -> list[int]:
    where: dict[str, int] = {}
    for column, token in enumerate(prediction):
        where[token] = where.get(token, 0) | 1 << column
    everything = (1 << len(prediction)) - 1
    rows, flat = [0], everything
    for token in reference:
        matches = flat & where.get(token, 0)
        flat = (flat + matches | flat - matches) & everything
        rows.append(flat ^ everything)
    return rows


def _length(row: int, columns: int) -> int:
    """The longest common subsequence with the first `columns` tokens of the prediction."""
    return (row & (1 << columns) - 1).bit_count()
