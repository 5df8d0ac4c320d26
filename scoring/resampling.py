"""How certain a score is: intervals over resampled cases, and paired tests between two runs.

Cases are the sampling unit, so cases are resampled, with tallies in place of raw cases: any metric, also a micro
average or a mean of metrics, is recomputed on every resample. Percentile bootstrap: Efron and Tibshirani 1993,
chapter 13; paired bootstrap for scores: Koehn 2004; approximate randomisation: Noreen 1989, Riezler and Maxwell 2005.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .errors import ScoringError
from .metric import AggregateMetric, FloatArray

TIE_TOLERANCE = 1e-9
"""A tie with the observed difference counts, although sums in another order differ in last bits."""


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
    metric: AggregateMetric,
    tallies: FloatArray,
    confidence: float = 0.95,
) -> Interval | None:
    """Percentile interval over `metric.bs` resamples of the cases; None without resamples or cases.

    tallies has shape (cases, width).
    """
    if metric.bs == 0 or len(tallies) == 0:
        return None
    return _percentiles(_resample(metric, tallies), confidence)


def paired_bootstrap(
    metric: AggregateMetric,
    tallies_a: FloatArray,
    tallies_b: FloatArray,
    confidence: float = 0.95,
) -> Comparison:
    """Both runs rescored on the same resampled cases.

    p is twice the smaller share of resamples on either side of no difference. tallies_a, tallies_b: shape
    (cases, width), row i of both the same case. Raises ScoringError when they do not pair.
    """
    _check_paired(metric, tallies_a, tallies_b)
    differences = _resample(metric, tallies_a) - _resample(metric, tallies_b)
    tail = min(np.mean(differences <= 0), np.mean(differences >= 0))
    p_value = min(1.0, 2 * float(tail))
    interval = _percentiles(differences, confidence)
    return _comparison(metric, tallies_a, tallies_b, interval, p_value, "paired-bootstrap")


def approximate_randomisation(
    metric: AggregateMetric,
    tallies_a: FloatArray,
    tallies_b: FloatArray,
    rounds: int = 10_000,
) -> Comparison:
    """How often swapping the runs case by case at random gives a difference as large as the observed one.

    p = (rounds at least as extreme + 1) / (rounds + 1). The interval is the paired bootstrap's. Raises ScoringError
    as there.
    """
    _check_paired(metric, tallies_a, tallies_b)
    total_a = tallies_a.sum(axis=0)
    total_b = tallies_b.sum(axis=0)
    observed = abs(float(metric.value(total_a) - metric.value(total_b)))
    swaps = _random_swaps(metric.seed, rounds, len(tallies_a))
    change = swaps @ (tallies_b - tallies_a)
    shuffled = metric.value(total_a + change) - metric.value(total_b - change)
    is_extreme = np.abs(shuffled) >= observed - TIE_TOLERANCE
    p_value = (int(np.sum(is_extreme)) + 1) / (rounds + 1)
    differences = _resample(metric, tallies_a) - _resample(metric, tallies_b)
    interval = _percentiles(differences, 0.95)
    return _comparison(metric, tallies_a, tallies_b, interval, p_value, "approximate-randomisation")


def _random_swaps(seed: int, rounds: int, cases: int) -> FloatArray:
    """1 where a round swaps a case between the runs, else 0; shape (rounds, cases)."""
    generator = np.random.default_rng(seed)
    return generator.integers(0, 2, size=(rounds, cases)).astype(np.float64)


@lru_cache(maxsize=4)
def _weights(cases: int, resamples: int, seed: int) -> FloatArray:
    """How often each case is drawn in each resample, shape (resamples, cases).

    Cached, since all metrics of a run have the same weights.
    """
    generator = np.random.default_rng(seed)
    uniform = np.full(cases, 1 / cases)
    return generator.multinomial(cases, uniform, size=resamples).astype(np.float64)


def _resample(metric: AggregateMetric, tallies: FloatArray) -> FloatArray:
    """The score of every resample, shape (resamples,)."""
    weights = _weights(len(tallies), metric.bs, metric.seed)
    return metric.value(weights @ tallies)


def _percentiles(values: FloatArray, confidence: float) -> Interval:
    low, high = np.percentile(values, [50 * (1 - confidence), 50 * (1 + confidence)])
    return Interval(float(low), float(high))


def _check_paired(metric: AggregateMetric, tallies_a: FloatArray, tallies_b: FloatArray) -> None:
    if tallies_a.shape != tallies_b.shape or len(tallies_a) == 0:
        shapes = f"{tallies_a.shape} and {tallies_b.shape}"
        raise ScoringError(
            f"two runs cannot be paired: tallies of {shapes}; score both on one key."
        )
    if metric.bs == 0:
        raise ScoringError("a paired test needs resamples; set bs to 1000 or so.")


def _comparison(
    metric: AggregateMetric,
    tallies_a: FloatArray,
    tallies_b: FloatArray,
    interval: Interval,
    p_value: float,
    method: str,
) -> Comparison:
    score_a = float(metric.value(tallies_a.sum(axis=0)))
    score_b = float(metric.value(tallies_b.sum(axis=0)))
    difference = score_a - score_b
    return Comparison(score_a, score_b, difference, *interval, p_value, len(tallies_a), method)
