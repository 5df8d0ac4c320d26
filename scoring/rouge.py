"""ROUGE (Lin 2004) by Google's `rouge_score`, as the official scripts call it.

No stemmer, F-measure, the mean over cases. Lsum is the summary-level form, which splits texts at
line breaks.

The library's table of common subsequences has a cell for every pair of a word of the reference and
a word of the prediction. Words that the other text lacks match nothing, so L and Lsum are given
shorter texts, and the words left out are counted again in precision and recall. The numbers are the
same, and 100 cases take a fifth of the time. (Which of several subsequences Lsum unites depends on
where the prediction's unmatched words are: there a run of them becomes one mark.)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, groupby
from typing import Any, Literal

from .deferred_imports import module_deferring
from .texts import TextMetric, TextSample

Variant = Literal["1", "2", "L", "Lsum"]

_UNMATCHED = "-"
"""Marks words that the reference lacks; itself no word, since words are letters and digits."""

_UNUSED_BY_US = ("nltk", "absl.logging", "rouge_score.tokenizers")
"""What the library imports for stemming, splitting into sentences and logging of its defaults."""


@dataclass(frozen=True, kw_only=True)
class Rouge(TextMetric):
    """F-measure in percent of unigrams (1), bigrams (2), or the longest subsequence (L, Lsum)."""

    name = "rouge"
    variant: Variant = "Lsum"

    def score(self, case: TextSample) -> float:
        """ROUGE of one prediction in percent."""
        if self.variant in ("L", "Lsum"):
            return 100 * _subsequence_f(self.variant, case)
        reference = " ".join(rouge_tokens(case.reference))
        prediction = " ".join(rouge_tokens(case.prediction))
        return 100 * float(_score(self.variant, reference, prediction).fmeasure)


def rouge_tokens(text: str) -> tuple[str, ...]:
    """Lower-case runs of ASCII letters and digits, as `rouge_score` counts them."""
    return tuple(chain.from_iterable(_lines_of_tokens(text)))


def _lines_of_tokens(text: str) -> list[tuple[str, ...]]:
    return [_line_tokens(line) for line in text.split("\n")]


@lru_cache(maxsize=65536)
def _line_tokens(line: str) -> tuple[str, ...]:
    """The tokens of a line, cached since every variant reads it."""
    from rouge_score.tokenize import tokenize

    return tuple(tokenize(line, stemmer=None))


def _subsequence_f(variant: Variant, case: TextSample) -> float:
    """The F-measure of L or Lsum, 0 to 1."""
    from rouge_score.scoring import fmeasure

    predicted = _lines_of_tokens(case.prediction)
    expected = _lines_of_tokens(case.reference)
    matches = _matches(variant, predicted, expected)
    if not matches:
        return 0.0
    precision = matches / sum(map(len, predicted))
    recall = matches / sum(map(len, expected))
    return float(fmeasure(precision, recall))


def _matches(
    variant: Variant, predicted: Sequence[Sequence[str]], expected: Sequence[Sequence[str]]
) -> int:
    """How many words of the prediction are in the common subsequences."""
    in_both = set(chain.from_iterable(predicted)) & set(chain.from_iterable(expected))
    shorten = _only if variant == "L" else _runs_marked
    reference = "\n".join(" ".join(_only(in_both, line)) for line in expected)
    prediction = "\n".join(" ".join(shorten(in_both, line)) for line in predicted)
    precision = float(_score(variant, reference, prediction).precision)
    return round(precision * len(prediction.split()))


def _only(words: Collection[str], line: Sequence[str]) -> list[str]:
    """The line without other words."""
    return [word for word in line if word in words]


def _runs_marked(words: Collection[str], line: Sequence[str]) -> list[str]:
    """The line with one mark in place of each run of other words."""
    kept: list[str] = []
    for is_kept, run in groupby(line, words.__contains__):
        kept.extend(run if is_kept else (_UNMATCHED,))
    return kept


def _score(variant: Variant, reference: str, prediction: str) -> Any:
    """Precision, recall and F-measure by the library; words stand between spaces and line ends."""
    return _scorer(variant).score(reference, prediction)[f"rouge{variant}"]


class _TokensBetweenSpaces:
    """A tokenizer for the library; the texts are tokenised already."""

    def tokenize(self, text: str) -> list[str]:
        return text.split()


@cache
def _scorer(variant: Variant) -> Any:
    """The scorer of a variant; imported on first use."""
    library = module_deferring("rouge_score.rouge_scorer", _UNUSED_BY_US)
    return library.RougeScorer([f"rouge{variant}"], tokenizer=_TokensBetweenSpaces())
