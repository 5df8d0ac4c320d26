import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from archqa.engine.answer_linking import LEAF, Forest, Tree
from training.boosting import BoostingSettings, fit_boosted_trees

QUICK = BoostingSettings(trees=30, learning_rate=0.2, column_fraction=1.0)


def points(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(seed).normal(size=(400, 4))
    return rows, (rows[:, 0] * rows[:, 1] > 0).astype(float)


def test_an_interaction_of_two_columns_is_learnt() -> None:
    rows, truth = points(0)
    bias, trees = fit_boosted_trees(rows, truth, QUICK, seed=0)
    unseen, gold = points(1)
    predicted = bias + Forest(trees).path_contributions(unseen).sum(1) > 0
    assert (predicted == gold).mean() > 0.85


def test_the_same_seed_gives_the_same_trees() -> None:
    assert fit_boosted_trees(*points(0), QUICK, seed=5) == fit_boosted_trees(
        *points(0), QUICK, seed=5
    )
    assert fit_boosted_trees(*points(0), QUICK, seed=5) != fit_boosted_trees(
        *points(0), QUICK, seed=6
    )


@settings(max_examples=20)
@given(st.integers(2, 60), st.integers(1, 5), st.integers(0, 9))
def test_any_rows_can_be_fitted(count: int, columns: int, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 3, (count, columns)).astype(float)
    truth = (np.arange(count) % 2).astype(float)
    bias, trees = fit_boosted_trees(rows, truth, QUICK, seed)
    assert np.isfinite(bias + Forest(trees).path_contributions(rows)).all()


def test_a_forest_is_the_sum_of_its_trees() -> None:
    rows, truth = points(0)
    _, trees = fit_boosted_trees(rows, truth, QUICK, seed=0)
    steps = [sum(leaf_value(tree, row) for tree in trees) for row in rows]
    assert np.allclose(Forest(trees).path_contributions(rows).sum(1), steps)


def leaf_value(tree: Tree, row: np.ndarray) -> float:
    """Walk one tree with one row."""
    node = 0
    while tree.column[node] != LEAF:
        goes_left = row[tree.column[node]] <= tree.threshold[node]
        node = tree.left[node] if goes_left else tree.right[node]
    return tree.value[node]
