"""Comparisons of two runs: exact p-values, Holm's adjustment, coverage and power."""

import time
from itertools import product

import numpy as np
import pytest

from scoring import ScoringError
from scoring.bleu import Bleu
from scoring.citations import CitationF1
from scoring.statistics import (
    METHODS,
    PairedTallies,
    detectable_difference,
    holm,
    paired_differences,
    t_quantile,
)


def means(first: np.ndarray, second: np.ndarray) -> PairedTallies:
    """Two runs scored by a plain mean."""
    ones = np.ones(len(first))
    return PairedTallies(
        Bleu(), np.column_stack([first, ones]), np.column_stack([second, ones])
    )


def citations(rng: np.random.Generator, cases: int) -> PairedTallies:
    """True positives, false positives and false negatives of two runs of equal quality."""
    first, second = rng.poisson(3, (2, cases, 3)).astype(float)
    return PairedTallies(CitationF1(), first, second)


def test_the_p_value_agrees_with_all_swaps_counted_one_by_one() -> None:
    tallies = citations(np.random.default_rng(5), 10)
    observed = abs(
        float(tallies.differences(tallies.first.sum(0), tallies.second.sum(0)))
    )
    extreme = 0
    for swaps in product([False, True], repeat=10):
        swapped = np.array(swaps)[:, None]
        first = np.where(swapped, tallies.second, tallies.first).sum(0)
        second = np.where(swapped, tallies.first, tallies.second).sum(0)
        extreme += abs(float(tallies.differences(first, second))) >= observed - 1e-9
    test = paired_differences({"f1": tallies})["f1"]
    assert test.p_value == pytest.approx(extreme / 1024, abs=0.015)


@pytest.mark.parametrize("method", METHODS)
def test_no_p_value_is_zero_however_large_the_difference(method: str) -> None:
    rng = np.random.default_rng(6)
    better = means(100 + rng.normal(0, 1, 60), rng.normal(0, 1, 60))
    test = paired_differences({"score": better}, method, resamples=500)["score"]
    smallest = 1 / 501 if method == "approximate-randomisation" else 2 / 501
    assert test.p_value == pytest.approx(smallest)


@pytest.mark.parametrize("method", METHODS)
def test_runs_with_equal_results_do_not_differ(method: str) -> None:
    values = np.arange(30.0)
    test = paired_differences({"score": means(values, values)}, method, resamples=500)[
        "score"
    ]
    assert (test.difference, test.low, test.high, test.p_value) == (0, 0, 0, 1)
    assert test.detectable_difference is None


@pytest.mark.parametrize("method", METHODS)
def test_a_small_steady_gain_is_found_although_cases_vary_much_more(
    method: str,
) -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(50, 20, size=60)
    improved = base + rng.normal(2, 1, size=60)
    test = paired_differences({"mean": means(improved, base)}, method)["mean"]
    assert test.p_value < 0.01
    assert 0 < test.low < test.difference < test.high


@pytest.mark.parametrize("method", METHODS)
def test_chance_is_significant_about_one_time_in_twenty(method: str) -> None:
    rng = np.random.default_rng(4)
    significant = 0
    for _ in range(100):
        runs = means(rng.normal(0, 1, size=40), rng.normal(0, 1, size=40))
        test = paired_differences({"mean": runs}, method, resamples=200)["mean"]
        significant += test.p_value < 0.05
    assert 1 <= significant <= 14


def test_runs_over_different_cases_cannot_be_paired() -> None:
    runs = PairedTallies(Bleu(), np.ones((3, 2)), np.ones((4, 2)))
    with pytest.raises(ScoringError, match="cannot be paired"):
        paired_differences({"mean": runs})


def test_the_seed_decides_the_p_value_and_the_order_of_the_scores_does_not() -> None:
    rng = np.random.default_rng(7)
    scores = {"a": citations(rng, 25), "b": citations(rng, 25)}
    turned = dict(reversed(scores.items()))
    one = paired_differences(scores, resamples=1000, seed=1)
    assert one == paired_differences(turned, resamples=1000, seed=1)
    assert (
        one["a"].p_value
        != paired_differences(scores, resamples=1000, seed=2)["a"].p_value
    )


def test_holm_adjusts_the_published_example() -> None:
    # Four tests: 0.01 · 4, 0.013 · 3 (not below the former), 0.014 · 2, 0.19.
    adjusted = holm({"a": 0.01, "b": 0.013, "c": 0.014, "d": 0.19})
    assert adjusted == pytest.approx({"a": 0.04, "b": 0.04, "c": 0.04, "d": 0.19})
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}


def test_every_score_is_adjusted_for_those_beside_it() -> None:
    rng = np.random.default_rng(8)
    base = rng.normal(50, 10, 40)
    gained = means(base + rng.normal(4, 10, 40), base)
    alone = paired_differences({"gain": gained}, resamples=2000)["gain"]
    noise = {str(number): citations(rng, 40) for number in range(4)}
    beside = paired_differences({"gain": gained, **noise}, resamples=2000)["gain"]
    assert alone.adjusted_p_value == alone.p_value == beside.p_value
    assert beside.adjusted_p_value > alone.p_value


def test_the_interval_of_a_mean_is_that_of_the_paired_t_test() -> None:
    rng = np.random.default_rng(9)
    gains = rng.normal(2, 5, 20)
    test = paired_differences({"mean": means(gains, np.zeros(20))}, resamples=100)[
        "mean"
    ]
    half = (
        2.093 * gains.std(ddof=1) / np.sqrt(20)
    )  # Student's t of 19 degrees of freedom.
    assert test.low == pytest.approx(gains.mean() - half, abs=0.01)
    assert test.high == pytest.approx(gains.mean() + half, abs=0.01)


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (5, 2.571), (27, 2.052)],
)
def test_quantiles_of_students_t_are_those_of_the_tables(
    freedom: int, expected: float
) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(expected, rel=0.011)


def test_four_in_five_tests_find_the_detectable_difference() -> None:
    rng = np.random.default_rng(10)
    cases, spread = 40, 10.0
    values = rng.normal(0, spread, cases)
    values *= spread / values.std(ddof=1)
    left_out = (values.sum() - values) / (cases - 1)
    gain = detectable_difference(left_out)
    assert gain is not None
    found = 0
    for _ in range(200):
        gains = rng.normal(gain, spread, cases)
        pair = means(gains, np.zeros(cases))
        found += (
            paired_differences({"mean": pair}, resamples=400)["mean"].p_value < 0.05
        )
    assert 0.7 < found / 200 < 0.9


def test_five_cases_can_show_no_difference_and_one_case_cannot_be_tested() -> None:
    values = np.array([1.0, 5.0, 2.0, 4.0, 3.0, 9.0])
    few = paired_differences({"mean": means(values[:5], np.zeros(5))})["mean"]
    assert (
        few.detectable_difference is None
    )  # The smallest p-value of five cases is 1 in 16.
    enough = paired_differences({"mean": means(values, np.zeros(6))})["mean"]
    assert enough.detectable_difference is not None
    with pytest.raises(ScoringError, match="two cases or more"):
        paired_differences({"mean": means(values[:1], np.zeros(1))})


def test_an_unknown_method_is_refused_with_those_there_are() -> None:
    values = np.ones(3)
    with pytest.raises(
        ScoringError, match="approximate-randomisation, paired-bootstrap"
    ):
        paired_differences({"mean": means(values, values)}, "t-test")


def test_thousands_of_cases_and_a_dozen_scores_are_compared_in_seconds() -> None:
    rng = np.random.default_rng(11)
    scores = {str(number): citations(rng, 2522) for number in range(12)}
    started = time.process_time()
    paired_differences(scores)
    assert time.process_time() - started < 20
