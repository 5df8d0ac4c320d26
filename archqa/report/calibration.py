"""Of the sentences said to be essential with 70 %, are seven in ten? Probabilities against what the key says."""

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from archqa.report.axis import Axis, Tick
from archqa.report.observed import SentencePrediction

SIZE = 320
_BINS = 10
_FEWEST = 30
"""Sentences below which a curve would say nothing."""
_Z = 1.96


class CalibrationBin(NamedTuple):
    """One bin: its place, its 95 % interval (Wilson), its size, and what it says in words."""

    x: float
    y: float
    low: float
    high: float
    radius: float
    words: str


class CalibrationPlot(NamedTuple):
    """The drawing. `brier` is the mean squared error, `error` the expected calibration error; both from 0 to 1."""

    dots: tuple[CalibrationBin, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    brier: float
    error: float
    sentences: int


def calibration_plot(found: Sequence[SentencePrediction]) -> CalibrationPlot | None:
    """The figure, from bins of as many sentences each; None where there are too few or nobody stated a probability."""
    if len(found) < _FEWEST or len({each.probability for each in found}) < _BINS:
        return None
    x, y = Axis(0, 1, 36, SIZE - 8), Axis(0, 1, SIZE - 30, 24)
    bins = list(_bins(found))
    dots = tuple(_dot(each, x, y, len(found)) for each in bins)
    brier = sum((each.probability - each.essential) ** 2 for each in found) / len(found)
    error = sum(len(each) / len(found) * abs(_mean(each) - _share(each)) for each in bins)
    return CalibrationPlot(dots, x.ticks(), y.ticks(), brier, error, len(found))


def _bins(found: Sequence[SentencePrediction]) -> list[Sequence[SentencePrediction]]:
    ordered = sorted(found)
    cuts = [round(len(ordered) * each / _BINS) for each in range(_BINS + 1)]
    return [ordered[start:end] for start, end in pairwise(cuts) if end > start]


def _dot(found: Sequence[SentencePrediction], x: Axis, y: Axis, of: int) -> CalibrationBin:
    mean, share = _mean(found), _share(found)
    low, high = wilson_interval(share, len(found))
    words = f"said {mean:.0%}, found {share:.0%} [{low:.0%}, {high:.0%}], {len(found)} sentences"
    return CalibrationBin(
        x(mean), y(share), y(low), y(high), round(2.5 + 8 * sqrt(len(found) / of), 1), words
    )


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share of so many (Wilson 1927)."""
    middle = share + _Z**2 / (2 * count)
    reach = _Z * sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    scale = 1 + _Z**2 / count
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)


def _mean(found: Sequence[SentencePrediction]) -> float:
    return sum(each.probability for each in found) / len(found)


def _share(found: Sequence[SentencePrediction]) -> float:
    return sum(each.essential for each in found) / len(found)
