"""Percentile intervals: coverage, seeds, micro averages."""

import numpy as np
import pytest

from scoring import bootstrap_interval
from scoring.bleu import Bleu
from scoring.citations import CitationF1, Citations


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
    assert bootstrap_interval(Bleu(seed=1), tallies) != bootstrap_interval(
        Bleu(seed=2), tallies
    )


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
