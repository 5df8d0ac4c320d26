"""How certain a score is: percentile intervals over resampled cases.

Cases are the sampling unit, so cases are resampled, with tallies in place of raw cases: any metric,
also a micro average or a mean of metrics, is recomputed on every resample. Percentile bootstrap:
Efron and Tibshirani 1993, chapter 13.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .metric import AggregateMetric, FloatArray


class Interval(NamedTuple):
    """The lower and upper end of a confidence interval, on the metric's own scale."""

    low: float
    high: float


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
    weights = _weights(len(tallies), metric.bs, metric.seed)
    resampled_scores = metric.value(weights @ tallies)
    tails = [50 * (1 - confidence), 50 * (1 + confidence)]
    low, high = np.percentile(resampled_scores, tails)
    return Interval(float(low), float(high))


@lru_cache(maxsize=4)
def _weights(cases: int, resamples: int, seed: int) -> FloatArray:
    """How often each case is drawn in each resample, shape (resamples, cases).

    Cached, since all metrics of a run have the same weights.
    """
    generator = np.random.default_rng(seed)
    uniform = np.full(cases, 1 / cases)
    return generator.multinomial(cases, uniform, size=resamples).astype(np.float64)
