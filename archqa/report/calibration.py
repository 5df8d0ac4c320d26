"""The calibration plot: the agents' probabilities against the share of essential sentences."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

from archqa.report.axis import Axis, Tick
from archqa.report.predictions import SentencePrediction

SIZE = 320
_BIN_COUNT = 10
_MIN_SENTENCES = 30
"""With fewer sentences, the figure would show nothing but noise."""
_Z = 1.96
"""The normal quantile of a 95 % interval."""


class CalibrationBin(NamedTuple):
    """One bin: its position, its 95 % interval (Wilson), its radius, and its tooltip."""

    x: float
    y: float
    low: float
    high: float
    radius: float
    tooltip: str


class CalibrationPlot(NamedTuple):
    """The figure. `brier` is the mean squared error; both errors are from 0 to 1."""

    bins: tuple[CalibrationBin, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    brier: float
    expected_calibration_error: float
    sentences: int


def calibration_plot(predictions: Sequence[SentencePrediction]) -> CalibrationPlot | None:
    """Return the figure, with bins of equally many sentences.

    None if there are too few sentences or too few different probabilities.
    """
    distinct = {prediction.probability for prediction in predictions}
    if len(predictions) < _MIN_SENTENCES or len(distinct) < _BIN_COUNT:
        return None
    x_axis = Axis(0, 1, 36, SIZE - 8)
    y_axis = Axis(0, 1, SIZE - 30, 24)
    count = len(predictions)
    bins = []
    calibration_error = 0.0
    for members in _equal_bins(predictions):
        gap = abs(_mean_probability(members) - _essential_share(members))
        calibration_error += len(members) / count * gap
        bins.append(_draw_bin(members, x_axis, y_axis, len(members) / count))
    return CalibrationPlot(
        bins=tuple(bins),
        x_ticks=x_axis.ticks(),
        y_ticks=y_axis.ticks(),
        brier=_brier_score(predictions),
        expected_calibration_error=calibration_error,
        sentences=count,
    )


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of `count` (Wilson 1927)."""
    center = share + _Z**2 / (2 * count)
    half_width = _Z * sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    scale = 1 + _Z**2 / count
    low = (center - half_width) / scale
    high = (center + half_width) / scale
    return max(0.0, low), min(1.0, high)


def _equal_bins(
    predictions: Sequence[SentencePrediction],
) -> Iterator[Sequence[SentencePrediction]]:
    ordered = sorted(predictions)
    cuts = [round(len(ordered) * cut / _BIN_COUNT) for cut in range(_BIN_COUNT + 1)]
    for start, end in pairwise(cuts):
        if end > start:
            yield ordered[start:end]


def _draw_bin(
    members: Sequence[SentencePrediction], x_axis: Axis, y_axis: Axis, fraction: float
) -> CalibrationBin:
    """Draw a bin that has this fraction of all sentences."""
    mean = _mean_probability(members)
    share = _essential_share(members)
    low, high = wilson_interval(share, len(members))
    tooltip = (
        f"predicted {mean:.0%}, essential {share:.0%} [{low:.0%}, {high:.0%}], "
        f"{len(members)} sentences"
    )
    return CalibrationBin(
        x=x_axis(mean),
        y=y_axis(share),
        low=y_axis(low),
        high=y_axis(high),
        radius=round(2.5 + 8 * sqrt(fraction), 1),
        tooltip=tooltip,
    )


def _brier_score(predictions: Sequence[SentencePrediction]) -> float:
    errors = [prediction.probability - prediction.essential for prediction in predictions]
    return sum(error**2 for error in errors) / len(errors)


def _mean_probability(predictions: Sequence[SentencePrediction]) -> float:
    return sum(prediction.probability for prediction in predictions) / len(predictions)


def _essential_share(predictions: Sequence[SentencePrediction]) -> float:
    return sum(prediction.essential for prediction in predictions) / len(predictions)
