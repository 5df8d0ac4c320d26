"""Resampling: coverage of intervals, and power and error rate of paired tests."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scoring import (
    Comparison,
    ScoringError,
    approximate_randomisation,
    bootstrap_interval,
    paired_bootstrap,
)
from scoring.bleu import Bleu
from scoring.citations import CitationF1, Citations

PairedTest = Callable[..., Comparison]


def means(values: np.ndarray) -> np.ndarray:
    """Tallies of a metric that is a plain mean."""
    return np.column_stack([values, np.ones(len(values))])


def test_the_interval_of_a_mean_agrees_with_the_normal_approximation() -> None:
    values = np.random.default_rng(1).normal(50, 10, size=400)
    interval = bootstrap_interval(Bleu(bs=4000), means(values))
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert interval is not None
    assert interval.low == pytest.approx(values.mean() - half, abs=0.15)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.15)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(200):
        values = rng.binomial(1, 0.3, size=60) * 100.0
        interval = bootstrap_interval(Bleu(bs=300), means(values))
        assert interval is not None
        covered += interval.low <= 30 <= interval.high
    assert 0.88 <= covered / 200 <= 0.99


def test_intervals_are_reproducible_and_move_with_the_seed() -> None:
    tallies = means(np.arange(30.0))
    assert bootstrap_interval(Bleu(), tallies) == bootstrap_interval(Bleu(), tallies)
    assert bootstrap_interval(Bleu(seed=1), tallies) != bootstrap_interval(Bleu(seed=2), tallies)


def test_a_micro_average_is_recomputed_on_every_resample() -> None:
    metric = CitationF1()
    right = Citations(frozenset("1"), frozenset("1"))
    wrong = Citations(frozenset("2"), frozenset("1"))
    cases = [right] * 10 + [wrong] * 10
    interval = bootstrap_interval(metric, metric.tallies(cases))
    assert interval is not None
    assert 20 < interval.low < 50 < interval.high < 80


def test_no_resamples_give_no_interval() -> None:
    assert bootstrap_interval(Bleu(bs=0), means(np.ones(3))) is None


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomisation])
def test_a_run_does_not_differ_from_itself(test: PairedTest) -> None:
    tallies = means(np.arange(40.0))
    comparison = test(Bleu(), tallies, tallies)
    assert comparison.difference == 0
    assert comparison.p_value == 1


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomisation])
def test_a_small_steady_gain_is_significant_although_cases_vary_much_more(test: PairedTest) -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(50, 20, size=60)
    improved = base + rng.normal(2, 1, size=60)
    comparison = test(Bleu(), means(improved), means(base))
    assert comparison.p_value < 0.01
    assert 0 < comparison.low < comparison.difference < comparison.high


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomisation])
def test_chance_is_significant_about_one_time_in_twenty(test: PairedTest) -> None:
    rng = np.random.default_rng(4)
    metric = Bleu(bs=200)
    options: dict[str, Any] = {"rounds": 200} if test is approximate_randomisation else {}
    significant = 0
    for _ in range(100):
        tallies_a = means(rng.normal(0, 1, size=40))
        tallies_b = means(rng.normal(0, 1, size=40))
        comparison = test(metric, tallies_a, tallies_b, **options)
        significant += comparison.p_value < 0.05
    assert significant <= 14


def test_approximate_randomisation_of_two_cases_agrees_with_the_exact_test() -> None:
    # Of the four swaps of (1,0) and (1,0), two give a difference as large as the observed one.
    comparison = approximate_randomisation(Bleu(), means(np.ones(2)), means(np.zeros(2)))
    assert comparison.p_value == pytest.approx(0.5, abs=0.02)


def test_runs_over_different_cases_cannot_be_paired() -> None:
    with pytest.raises(ScoringError, match="cannot be paired"):
        paired_bootstrap(Bleu(), means(np.ones(3)), means(np.ones(4)))
