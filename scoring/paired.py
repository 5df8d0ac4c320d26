"""Whether two runs of the same cases differ: a paired test, an interval and its power, per score.

The test is approximate randomisation (Noreen 1989; Riezler and Maxwell 2005): if the runs do not
differ, the two results of a case may be swapped. The interval is studentised: the jackknife's
standard error times a quantile of Student's t (Efron and Tibshirani 1993, chapter 11). It covers
better than the percentile and BCa intervals of few cases: `docs/statistics.md` has the measured
coverage. The p-values of scores tested together are adjusted by Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from .errors import ScoringError
from .metric import AggregateMetric, FloatArray
from .resampling import Interval

RESAMPLES = 10_000
LEVEL = 0.05
POWER = 0.8
METHODS = ("approximate-randomisation", "paired-bootstrap")
_TIE_TOLERANCE = 1e-9
"""A tie with the observed difference counts, although sums in another order differ in last bits."""
_CELLS_AT_ONCE = 2_000_000
"""Resamples are drawn in blocks of at most so many numbers, 16 MB."""
_NORMAL = NormalDist()


class PairedTallies(NamedTuple):
    """A metric and the tallies of both runs, shape (cases, width); row i of both is one case."""

    metric: AggregateMetric
    first: FloatArray
    second: FloatArray

    def differences(self, first_totals: FloatArray, second_totals: FloatArray) -> FloatArray:
        """First minus second score, for totals of shape (..., width)."""
        return self.metric.value(first_totals) - self.metric.value(second_totals)


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
    _check_method(method, resamples)
    if not scores:
        return {}
    cases = _paired_cases(scores)
    if method == "paired-bootstrap":
        p_values = _bootstrap_p_values(scores, cases, resamples, seed)
    else:
        p_values = _randomisation_p_values(scores, cases, resamples, seed)
    adjusted = holm(p_values)
    results = {}
    for name, tallies in scores.items():
        first, second = _scores(tallies)
        left_out = _leave_one_out(tallies)
        results[name] = PairedDifference(
            first,
            second,
            first - second,
            *studentised_interval(first - second, left_out),
            p_values[name],
            cases,
            method,
            adjusted[name],
            detectable_difference(left_out),
            resamples,
            seed,
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
    observed: float, left_out: FloatArray, confidence: float = 1 - LEVEL
) -> Interval:
    """The interval of a statistic, from its values without each case."""
    quantile = t_quantile((1 + confidence) / 2, len(left_out) - 1)
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
    return error * (t_quantile(1 - LEVEL / 2, cases - 1) + t_quantile(POWER, cases - 1))


def jackknife_error(left_out: FloatArray) -> float:
    """The standard error of a statistic, from its values without each case."""
    cases = len(left_out)
    squares = np.sum((left_out - left_out.mean()) ** 2)
    return math.sqrt(float(squares) * (cases - 1) / cases)


def t_quantile(probability: float, freedom: int) -> float:
    """A quantile of Student's t: exact for 1 and 2 degrees of freedom.

    Beyond, by the expansion around the normal one (Abramowitz and Stegun 26.7.5), within 1 %.
    """
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        return (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))
    z = _NORMAL.inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    corrections = (term / float(freedom) ** power for power, term in enumerate(terms, start=1))
    return z + sum(corrections)


def _check_method(method: str, resamples: int) -> None:
    if method not in METHODS:
        raise ScoringError(f"{method!r} is no paired test; choose one of {', '.join(METHODS)}.")
    if resamples < 1:
        raise ScoringError("a paired test needs resamples; 10,000 or so.")


def _paired_cases(scores: Mapping[str, PairedTallies]) -> int:
    shapes = {(len(score.first), len(score.second)) for score in scores.values()}
    cases, second_cases = shapes.pop()
    if shapes or cases != second_cases:
        raise ScoringError("two runs cannot be paired: score both on the same cases.")
    if cases < 2:
        raise ScoringError("a paired test needs two cases or more.")
    return cases


def _scores(tallies: PairedTallies) -> tuple[float, float]:
    first = tallies.metric.value(tallies.first.sum(axis=0))
    second = tallies.metric.value(tallies.second.sum(axis=0))
    return float(first), float(second)


def _leave_one_out(tallies: PairedTallies) -> FloatArray:
    """The difference without each case, shape (cases,)."""
    first = tallies.first.sum(axis=0) - tallies.first
    second = tallies.second.sum(axis=0) - tallies.second
    return tallies.differences(first, second)


def _bootstrap_p_values(
    scores: Mapping[str, PairedTallies], cases: int, resamples: int, seed: int
) -> dict[str, float]:
    generator = np.random.default_rng(seed)
    uniform = np.full(cases, 1 / cases)

    def draw(count: int) -> FloatArray:
        return generator.multinomial(cases, uniform, size=count).astype(np.float64)

    both = [np.hstack([score.first, score.second]) for score in scores.values()]
    all_totals = _resampled_totals(both, resamples, draw)
    p_values = {}
    for (name, score), totals in zip(scores.items(), all_totals, strict=True):
        first, second = np.split(totals, 2, axis=1)
        p_values[name] = _bootstrap_p_value(score.differences(first, second))
    return p_values


def _randomisation_p_values(
    scores: Mapping[str, PairedTallies], cases: int, resamples: int, seed: int
) -> dict[str, float]:
    generator = np.random.default_rng(seed)

    def draw(count: int) -> FloatArray:
        return generator.integers(0, 2, size=(count, cases), dtype=np.int8).astype(np.float64)

    gains = [score.second - score.first for score in scores.values()]
    changes = _resampled_totals(gains, resamples, draw)
    p_values = {}
    for (name, score), change in zip(scores.items(), changes, strict=True):
        first = score.first.sum(axis=0)
        second = score.second.sum(axis=0)
        observed = abs(float(score.differences(first, second)))
        swapped = np.abs(score.differences(first + change, second - change))
        extreme = int(np.sum(swapped >= observed - _TIE_TOLERANCE))
        p_values[name] = (extreme + 1) / (resamples + 1)
    return p_values


def _bootstrap_p_value(differences: FloatArray) -> float:
    """Twice the smaller share of resamples on either side of no difference."""
    smaller = min(int(np.sum(differences <= 0)), int(np.sum(differences >= 0)))
    return min(1.0, 2 * (smaller + 1) / (len(differences) + 1))


def _resampled_totals(
    tallies: Sequence[FloatArray], resamples: int, draw: Callable[[int], FloatArray]
) -> list[FloatArray]:
    """The totals of every tally in every resample.

    `draw(count)` returns the weights of the cases in so many resamples, shape (count, cases).
    """
    columns = np.hstack(tallies)
    blocks = [draw(count) @ columns for count in _block_sizes(resamples, len(columns))]
    ends = np.cumsum([tally.shape[1] for tally in tallies])
    return np.split(np.vstack(blocks), ends[:-1], axis=1)


def _block_sizes(resamples: int, cases: int) -> Iterator[int]:
    size = max(1, _CELLS_AT_ONCE // cases)
    for start in range(0, resamples, size):
        yield min(size, resamples - start)
