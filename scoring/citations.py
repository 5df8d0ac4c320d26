"""Precision, recall and F1 of citations against a key, over all cases (micro) or per case (macro).

The rules of the three shared tasks differ slightly, so each has metrics of its own: `citation_*` is
ArchEHR-QA 2025 (soni-sarvesh/archehr-qa at 771b948, `compute_factuality_scores_for_variation`),
`evidence_*` is subtask 2 and `link_*` subtask 4 of 2026 (soni-sarvesh/archehr-qa-2026 at 344b67e).

Own code: the official numbers are those of the organisers' scripts, which are no package; general
libraries of classification scores differ in what counts where a set is empty.
"""

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from .metric import Case, FloatArray, Metric, PartOfF1, Tally, part_of_f1, ratio

Item = TypeVar("Item", bound=Hashable)


class Citations(NamedTuple):
    """The sentence ids that an answer cites, and those that are essential or supplementary."""

    cited: frozenset[str]
    essential: frozenset[str]
    supplementary: frozenset[str] = frozenset()


class Links(NamedTuple):
    """The (answer sentence, note sentence) pairs of one case, predicted and in the key."""

    predicted: frozenset[tuple[str, str]]
    gold: frozenset[tuple[str, str]]


Counts = tuple[int, int, int]
"""True positives, false positives and false negatives of one case."""

Credit = Literal["strict", "lenient"]
Average = Literal["micro", "macro"]


@dataclass(frozen=True, kw_only=True)
class SetMetric(Metric[Case]):
    """Precision, recall or F1 (0 to 100) of sets; micro sums counts, macro averages cases."""

    part: ClassVar[PartOfF1]
    both_empty: ClassVar[float] = 0.0
    avg: Average = "micro"

    @property
    def width(self) -> int:
        """Three counts (micro), or the case's score and a one (macro)."""
        return 3 if self.avg == "micro" else 2

    @abstractmethod
    def counts(self, case: Case) -> Counts:
        """True positives, false positives and false negatives of one case."""

    def tally(self, case: Case) -> Tally:
        """(tp, fp, fn) for micro, (score of the case, 1) for macro."""
        counts = self.counts(case)
        if self.avg == "micro":
            return tuple(map(float, counts))
        if not any(counts):
            return self.both_empty, 1.0
        case_counts = np.array(counts, dtype=np.float64)
        return float(self._score(case_counts)), 1.0

    def value(self, total: FloatArray) -> FloatArray:
        """The score in percent; 0 where a denominator is 0."""
        if self.avg == "micro":
            return 100 * self._score(total)
        return 100 * ratio(total[..., 0], total[..., 1])

    def _score(self, counts: FloatArray) -> FloatArray:
        """The score (0 to 1) of counts of shape (..., 3)."""
        tp = counts[..., 0]
        fp = counts[..., 1]
        fn = counts[..., 2]
        ratios = np.stack([tp, tp + fp, tp, tp + fn], axis=-1)
        return part_of_f1(ratios, self.part)


@dataclass(frozen=True, kw_only=True)
class CitationMetric(SetMetric[Citations]):
    """ArchEHR-QA 2025: the gold is the essential, with lenient credit also the supplementary."""

    credit: Credit = "strict"

    def counts(self, case: Citations) -> Counts:
        """Set overlap with the gold; an id that the note does not have is a false positive."""
        if self.credit == "strict":
            return overlap(case.cited, case.essential)
        return overlap(case.cited, case.essential | case.supplementary)


class CitationPrecision(CitationMetric):
    """The share of cited sentences that are in the gold."""

    name = "citation_precision"
    part = "precision"


class CitationRecall(CitationMetric):
    """The share of the gold that is cited."""

    name = "citation_recall"
    part = "recall"


class CitationF1(CitationMetric):
    """Their harmonic mean; the 2025 leaderboard's factuality is strict micro F1."""

    name = "citation_f1"
    part = "f1"


@dataclass(frozen=True, kw_only=True)
class EvidenceMetric(SetMetric[Citations]):
    """ArchEHR-QA 2026, subtask 2: lenient credit ignores supplementary sentences."""

    both_empty = 1.0
    credit: Credit = "strict"

    def counts(self, case: Citations) -> Counts:
        """Set overlap with the essential sentences; lenient first drops supplementary citations."""
        if self.credit == "strict":
            return overlap(case.cited, case.essential)
        return overlap(case.cited - case.supplementary, case.essential)


class EvidencePrecision(EvidenceMetric):
    """The share of predicted sentences that are essential."""

    name = "evidence_precision"
    part = "precision"


class EvidenceRecall(EvidenceMetric):
    """The share of essential sentences that were predicted."""

    name = "evidence_recall"
    part = "recall"


class EvidenceF1(EvidenceMetric):
    """Their harmonic mean; strict micro F1 is the subtask's overall score."""

    name = "evidence_f1"
    part = "f1"


@dataclass(frozen=True, kw_only=True)
class LinkMetric(SetMetric[Links]):
    """ArchEHR-QA 2026, subtask 4: answer and note sentence pairs; two empty sets score 0."""

    def counts(self, case: Links) -> Counts:
        """Set overlap of the pairs."""
        return overlap(case.predicted, case.gold)


class LinkPrecision(LinkMetric):
    """The share of predicted pairs that are in the key."""

    name = "link_precision"
    part = "precision"


class LinkRecall(LinkMetric):
    """The share of the key's pairs that were predicted."""

    name = "link_recall"
    part = "recall"


class LinkF1(LinkMetric):
    """Their harmonic mean; micro F1 is the subtask's overall score."""

    name = "link_f1"
    part = "f1"


def overlap(predicted: frozenset[Item], gold: frozenset[Item]) -> Counts:
    """True positives, false positives and false negatives of one set against another."""
    return len(predicted & gold), len(predicted - gold), len(gold - predicted)
