import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from archqa.engine.gradient_boosting import (
    BoostingSettings,
    Forest,
    Tree,
    fit_boosted_trees,
    path_contributions,
)

QUICK = BoostingSettings(trees=30, learning_rate=0.2, column_fraction=1.0)


def points(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(seed).normal(size=(400, 4))
    return rows, (rows[:, 0] * rows[:, 1] > 0).astype(float)


def test_a_crossing_of_two_columns_is_learnt() -> None:
    rows, truth = points(0)
    bias, trees = fit_boosted_trees(rows, truth, QUICK, seed=0)
    unseen, gold = points(1)
    said = bias + sum(path_contributions(tree, unseen).sum(1) for tree in trees) > 0
    assert (said == gold).mean() > 0.85


def test_the_same_seed_gives_the_same_trees() -> None:
    assert fit_boosted_trees(*points(0), QUICK, seed=5) == fit_boosted_trees(
        *points(0), QUICK, seed=5
    )
    assert fit_boosted_trees(*points(0), QUICK, seed=5) != fit_boosted_trees(
        *points(0), QUICK, seed=6
    )


def test_what_the_columns_add_sums_to_the_leaf() -> None:
    stump = Tree(
        column=(1, -1, -1),
        threshold=(0.5, 0, 0),
        left=(1, -1, -1),
        right=(2, -1, -1),
        value=(0.0, -1.0, 2.0),
    )
    assert path_contributions(stump, np.array([[9.0, 0.5], [9.0, 0.6]])).tolist() == [
        [0.0, -1.0],
        [0.0, 2.0],
    ]


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 60), st.integers(1, 5), st.integers(0, 9))
def test_any_rows_can_be_fitted(count: int, columns: int, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 3, (count, columns)).astype(float)
    truth = (np.arange(count) % 2).astype(float)
    bias, trees = fit_boosted_trees(rows, truth, QUICK, seed)
    assert np.isfinite(bias + sum(path_contributions(tree, rows).sum(1) for tree in trees)).all()


def test_a_forest_is_the_sum_of_its_trees() -> None:
    rows, truth = points(0)
    _, trees = fit_boosted_trees(rows, truth, QUICK, seed=0)
    assert np.allclose(
        Forest(trees).path_contributions(rows),
        sum(path_contributions(tree, rows) for tree in trees),
    )
