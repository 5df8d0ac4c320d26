"""How sure a score is: intervals over resampled cases, and paired tests between two runs.

Cases are the unit that was drawn from the world, so cases are what is resampled, with tallies in place of raw cases:
any metric, also a micro average or a mean of metrics, is recomputed on every resample. Percentile bootstrap: Efron
and Tibshirani 1993, chapter 13; paired bootstrap for scores: Koehn 2004; approximate randomisation: Noreen 1989,
Riezler and Maxwell 2005.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .errors import ScoringError
from .metric import AggregateMetric, FloatArray


class Interval(NamedTuple):
    """The lower and upper end of a confidence interval, on the metric's own scale."""

    low: float
    high: float


class Comparison(NamedTuple):
    """Two runs over the same cases: `difference` is first minus second, `p_value` two-sided, `n` the cases."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    n: int
    method: str


def bootstrap_interval(
    metric: AggregateMetric, tallies: FloatArray, confidence: float = 0.95
) -> Interval | None:
    """Percentile interval of the score over `metric.bs` resamples of the cases; None for no resamples or no case.

    tallies has shape (cases, width).
    """
    if metric.bs == 0 or len(tallies) == 0:
        return None
    return _percentiles(_resampled(metric, tallies), confidence)


def paired_bootstrap(
    metric: AggregateMetric, first: FloatArray, second: FloatArray, confidence: float = 0.95
) -> Comparison:
    """Both runs rescored on the same resampled cases; p is twice the smaller share of resamples on either side of no
    difference.

    first, second: shape (cases, width), row i of both the same case. Raises ScoringError when they do not pair.
    """
    _check_paired(metric, first, second)
    differences = _resampled(metric, first) - _resampled(metric, second)
    tail = min(np.mean(differences <= 0), np.mean(differences >= 0))
    interval = _percentiles(differences, confidence)
    return _comparison(
        metric, first, second, interval, min(1.0, 2 * float(tail)), "paired-bootstrap"
    )


def approximate_randomisation(
    metric: AggregateMetric, first: FloatArray, second: FloatArray, rounds: int = 10_000
) -> Comparison:
    """How often swapping the runs case by case at random gives a difference as large as the one seen.

    p = (rounds at least as extreme + 1) / (rounds + 1). The interval is the paired bootstrap's. Raises ScoringError
    as there.
    """
    _check_paired(metric, first, second)
    seen = abs(float(metric.value(first.sum(axis=0)) - metric.value(second.sum(axis=0))))
    swaps = (
        np.random.default_rng(metric.seed)
        .integers(0, 2, size=(rounds, len(first)))
        .astype(np.float64)
    )
    moved = swaps @ (second - first)
    shuffled = metric.value(first.sum(axis=0) + moved) - metric.value(second.sum(axis=0) - moved)
    # Sums in another order differ in the last bits; a tie with what was seen must count as one.
    extreme = int(np.sum(np.abs(shuffled) >= seen - 1e-9))
    interval = _percentiles(_resampled(metric, first) - _resampled(metric, second), 0.95)
    return _comparison(
        metric, first, second, interval, (extreme + 1) / (rounds + 1), "approximate-randomisation"
    )


@lru_cache(maxsize=4)
def _weights(cases: int, resamples: int, seed: int) -> FloatArray:
    """How often each case is drawn in each resample, shape (resamples, cases); the same for every metric of a run."""
    drawn = np.random.default_rng(seed).multinomial(
        cases, np.full(cases, 1 / cases), size=resamples
    )
    return drawn.astype(np.float64)


def _resampled(metric: AggregateMetric, tallies: FloatArray) -> FloatArray:
    return metric.value(_weights(len(tallies), metric.bs, metric.seed) @ tallies)


def _percentiles(values: FloatArray, confidence: float) -> Interval:
    low, high = np.percentile(values, [50 * (1 - confidence), 50 * (1 + confidence)])
    return Interval(float(low), float(high))


def _check_paired(metric: AggregateMetric, first: FloatArray, second: FloatArray) -> None:
    if first.shape != second.shape or len(first) == 0:
        raise ScoringError(
            f"two runs cannot be paired: tallies of {first.shape} and {second.shape}; score both on one key."
        )
    if metric.bs == 0:
        raise ScoringError("a paired test needs resamples; set bs to 1000 or so.")


def _comparison(
    metric: AggregateMetric,
    first: FloatArray,
    second: FloatArray,
    interval: Interval,
    p_value: float,
    method: str,
) -> Comparison:
    a, b = float(metric.value(first.sum(axis=0))), float(metric.value(second.sum(axis=0)))
    return Comparison(a, b, a - b, *interval, p_value, len(first), method)
