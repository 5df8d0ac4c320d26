"""How certain a score is, and whether two runs of the same cases differ.

Cases are the sampling unit, so cases are resampled, with tallies in place of raw cases: any metric,
also a micro average or a mean of metrics, is recomputed on every resample. The interval of one
score is the percentile bootstrap (Efron and Tibshirani 1993, chapter 13).

The paired test is approximate randomisation (Noreen 1989; Riezler and Maxwell 2005): if the runs do
not differ, the two results of a case may be swapped. The interval of a difference is studentised:
the jackknife's standard error times a quantile of Student's t (Efron and Tibshirani 1993, chapter
11). It covers better than the percentile and BCa intervals of few cases: `docs/statistics.md` has
the measured coverage. The p-values of scores tested together are adjusted by Holm 1979.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from .errors import ScoringError
from .metric import FloatArray, Metric, MetricMean

RESAMPLES = 10_000
LEVEL = 0.05
CONFIDENCE = 0.95
POWER = 0.8
METHODS = ("approximate-randomisation", "paired-bootstrap")
_TIE_TOLERANCE = 1e-9
"""A tie with the observed difference counts, although sums in another order differ in last bits."""
_CELLS_AT_ONCE = 2_000_000
"""Resamples are drawn in blocks of at most so many numbers, 16 MB."""
_NORMAL = NormalDist()


class Interval(NamedTuple):
    """The lower and upper end of a confidence interval, on the metric's own scale."""

    low: float
    high: float


def bootstrap_interval(
    metric: Metric[Any] | MetricMean,
    tallies: FloatArray,
) -> Interval | None:
    """Percentile interval (95 %) over `metric.bs` resamples of the cases; None without resamples or cases.

    tallies has shape (cases, width).
    """
    if metric.bs == 0 or len(tallies) == 0:
        return None
    weights = _bootstrap_weights(len(tallies), metric.bs, metric.seed)
    resampled_scores = metric.value(weights @ tallies)
    low, high = np.percentile(
        resampled_scores, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)]
    )
    return Interval(float(low), float(high))


@lru_cache(maxsize=4)
def _bootstrap_weights(cases: int, resamples: int, seed: int) -> FloatArray:
    """How often each case is drawn in each resample, shape (resamples, cases).

    Cached, since all metrics of a run have the same weights.
    """
    generator = np.random.default_rng(seed)
    return _draw_cases(generator, cases, resamples)


def _draw_cases(
    generator: np.random.Generator,
    cases: int,
    resamples: int,
) -> FloatArray:
    uniform = np.full(cases, 1 / cases)
    counts = generator.multinomial(cases, uniform, size=resamples)
    return counts.astype(np.float64)


class PairedTallies(NamedTuple):
    """A metric and the tallies of both runs, shape (cases, width); row i of both is one case."""

    metric: Metric[Any] | MetricMean
    first: FloatArray
    second: FloatArray

    def differences(
        self,
        first_totals: FloatArray,
        second_totals: FloatArray,
    ) -> FloatArray:
        """First minus second score, for totals of shape (..., width)."""
        first = self.metric.value(first_totals)
        second = self.metric.value(second_totals)
        return first - second


class PairedDifference(NamedTuple):
    """A score of two runs over the same `n` cases: `difference` is `first` minus `second`.

    `low` to `high` is its 95 % interval, `p_value` is two-sided, `adjusted_p_value` is Holm's over
    all scores tested together. `detectable_difference` is the smallest true difference that a test
    at .05 over so many cases finds with a power of .8; None where the cases do not tell.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    n: int
    method: str
    adjusted_p_value: float
    detectable_difference: float | None
    resamples: int
    seed: int


def paired_differences(
    scores: Mapping[str, PairedTallies],
    method: str = METHODS[0],
    resamples: int = RESAMPLES,
    seed: int = 12345,
) -> dict[str, PairedDifference]:
    """The paired test of every score, all on the same resamples.

    p is (extreme resamples + 1) / (resamples + 1), so that it is never 0.
    method: `approximate-randomisation` or `paired-bootstrap`. Raises ScoringError for another
    method, and for runs that cannot be paired.
    """
    if method not in METHODS:
        choices = ", ".join(METHODS)
        raise ScoringError(f"{method!r} is no paired test; choose one of {choices}.")
    if resamples < 1:
        raise ScoringError("a paired test needs resamples; 10,000 or so.")
    if not scores:
        return {}
    sizes = set()
    for tallies in scores.values():
        sizes.add(len(tallies.first))
        sizes.add(len(tallies.second))
    if len(sizes) > 1:
        raise ScoringError("two runs cannot be paired: score both on the same cases.")
    cases = sizes.pop()
    if cases < 2:
        raise ScoringError("a paired test needs two cases or more.")
    p_values = _p_values(scores, method, cases, resamples, seed)
    adjusted = holm(p_values)
    results = {}
    for name, tallies in scores.items():
        first_total = tallies.first.sum(axis=0)
        second_total = tallies.second.sum(axis=0)
        first = float(tallies.metric.value(first_total))
        second = float(tallies.metric.value(second_total))
        difference = first - second
        left_out = tallies.differences(
            first_total - tallies.first, second_total - tallies.second
        )
        interval = studentised_interval(difference, left_out)
        results[name] = PairedDifference(
            first=first,
            second=second,
            difference=difference,
            low=interval.low,
            high=interval.high,
            p_value=p_values[name],
            n=cases,
            method=method,
            adjusted_p_value=adjusted[name],
            detectable_difference=detectable_difference(left_out),
            resamples=resamples,
            seed=seed,
        )
    return results


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """The p-values adjusted for being tested together, by Holm's step-down method."""
    adjusted = {}
    largest = 0.0
    remaining = len(p_values)
    for name in sorted(p_values, key=lambda name: p_values[name]):
        largest = max(largest, min(1.0, remaining * p_values[name]))
        adjusted[name] = largest
        remaining -= 1
    return adjusted


def studentised_interval(
    observed: float,
    left_out: FloatArray,
) -> Interval:
    """The 95 % interval of a statistic, from its values without each case."""
    freedom = len(left_out) - 1
    quantile = t_quantile(1 - LEVEL / 2, freedom)
    half = quantile * jackknife_error(left_out)
    return Interval(observed - half, observed + half)


def detectable_difference(left_out: FloatArray) -> float | None:
    """The smallest difference found at .05 with a power of .8, from the jackknife's variance.

    None for runs whose results differ nowhere, and for cases so few that no p-value reaches .05.
    """
    cases = len(left_out)
    smallest_p_value = 2.0 ** (1 - cases)  # All cases swapped, or none.
    if smallest_p_value > LEVEL:
        return None
    error = jackknife_error(left_out)
    if error <= _TIE_TOLERANCE:
        return None
    significance_quantile = t_quantile(1 - LEVEL / 2, cases - 1)
    power_quantile = t_quantile(POWER, cases - 1)
    return error * (significance_quantile + power_quantile)


def jackknife_error(left_out: FloatArray) -> float:
    """The standard error of a statistic, from its values without each case."""
    cases = len(left_out)
    deviations = left_out - left_out.mean()
    squares = float(np.sum(deviations**2))
    return math.sqrt(squares * (cases - 1) / cases)


def t_quantile(probability: float, freedom: int) -> float:
    """A quantile of Student's t: exact for 1 and 2 degrees of freedom.

    Beyond, by the expansion around the normal one (Abramowitz and Stegun 26.7.5), within 1 %.
    """
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        variance = probability * (1 - probability)
        return (2 * probability - 1) / math.sqrt(2 * variance)
    z = _NORMAL.inv_cdf(probability)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    n = float(freedom)
    correction = first / n + second / n**2 + third / n**3
    return z + correction


def _p_values(
    scores: Mapping[str, PairedTallies],
    method: str,
    cases: int,
    resamples: int,
    seed: int,
) -> dict[str, float]:
    generator = np.random.default_rng(seed)

    def draw(count: int) -> FloatArray:
        if method == "paired-bootstrap":
            return _draw_cases(generator, cases, count)
        swaps = generator.integers(0, 2, size=(count, cases), dtype=np.int8)
        return swaps.astype(np.float64)

    tallies = []
    for score in scores.values():
        if method == "paired-bootstrap":
            tallies.append(np.hstack([score.first, score.second]))
        else:
            tallies.append(score.second - score.first)
    all_totals = _resampled_totals(tallies, resamples, draw)
    p_values = {}
    for (name, score), totals in zip(scores.items(), all_totals, strict=True):
        if method == "paired-bootstrap":
            extreme = _bootstrap_extremes(score, totals)
        else:
            extreme = _randomisation_extremes(score, totals)
        p_values[name] = min(1.0, extreme / (resamples + 1))
    return p_values


def _bootstrap_extremes(score: PairedTallies, totals: FloatArray) -> int:
    """Twice the smaller number of resamples on either side of no difference, and one more."""
    first, second = np.split(totals, 2, axis=1)
    differences = score.differences(first, second)
    not_above = int(np.sum(differences <= 0))
    not_below = int(np.sum(differences >= 0))
    return 2 * (min(not_above, not_below) + 1)


def _randomisation_extremes(score: PairedTallies, change: FloatArray) -> int:
    """The random swaps with a difference at least as large as the observed one, and one more."""
    first = score.first.sum(axis=0)
    second = score.second.sum(axis=0)
    observed = float(score.differences(first, second))
    swapped = score.differences(first + change, second - change)
    is_extreme = np.abs(swapped) >= abs(observed) - _TIE_TOLERANCE
    return int(np.sum(is_extreme)) + 1


def _resampled_totals(
    tallies: Sequence[FloatArray],
    resamples: int,
    draw: Callable[[int], FloatArray],
) -> list[FloatArray]:
    """The totals of every tally in every resample.

    `draw(count)` returns the weights of the cases in so many resamples, shape (count, cases).
    """
    columns = np.hstack(tallies)
    block_size = max(1, _CELLS_AT_ONCE // len(columns))
    blocks = []
    for start in range(0, resamples, block_size):
        count = min(block_size, resamples - start)
        weights = draw(count)
        blocks.append(weights @ columns)
    totals = np.vstack(blocks)
    widths = [tally.shape[1] for tally in tallies]
    ends = np.cumsum(widths)
    return np.split(totals, ends[:-1], axis=1)
