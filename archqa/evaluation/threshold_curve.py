"""Precision, recall and F1 of the evidence over all thresholds, from stored votes."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from archqa.panel.calibration import VotedCase, score_selections

THRESHOLDS = tuple(step / 20 for step in range(1, 20))
"""From .05 to .95."""


class CurvePoint(NamedTuple):
    """The quality of the sentences above a threshold: strict micro, in percent."""

    threshold: float
    selected: int
    precision: float
    recall: float
    f1: float


def threshold_curve(
    cases: Sequence[VotedCase], probabilities: Sequence[Mapping[str, float]]
) -> tuple[CurvePoint, ...]:
    """A point for each of `THRESHOLDS`; `probabilities` are the combined ones of each case."""
    return tuple(_point(cases, probabilities, threshold) for threshold in THRESHOLDS)


def _point(
    cases: Sequence[VotedCase], probabilities: Sequence[Mapping[str, float]], threshold: float
) -> CurvePoint:
    selections = [_above(by_sentence, threshold) for by_sentence in probabilities]
    quality = score_selections(cases, [dict(each) for each in probabilities], selections)
    selected = sum(map(len, selections))
    return CurvePoint(threshold, selected, quality.precision, quality.recall, quality.f1)


def _above(by_sentence: Mapping[str, float], threshold: float) -> frozenset[str]:
    return frozenset(name for name, value in by_sentence.items() if value > threshold)
