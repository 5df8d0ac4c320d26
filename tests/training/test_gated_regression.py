import numpy as np
import pytest

from archqa.engine.engine import (
    STYLE_COLUMN,
    STYLE_TRANSITION_WIDTH,
    StyleGatedRegression,
)
from archqa.notes.sections import MIN_TYPED_SHORTHAND
from training.regression import fit_gated_regression

COLUMNS = (STYLE_COLUMN, "reader.logit")


def rows_of(
    style: float, seed: int, count: int = 2000
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one style, with an informative logit in typed notes and a random one in dictated ones."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(size=count)
    right = (
        1 / (1 + np.exp(-4 * logit))
        if style > MIN_TYPED_SHORTHAND
        else np.full(count, 0.5)
    )
    return np.column_stack([np.full(count, style), logit]), (
        rng.random(count) < right
    ).astype(float)


@pytest.fixture(scope="module")
def fitted() -> StyleGatedRegression:
    typed, dictated = (
        rows_of(MIN_TYPED_SHORTHAND + STYLE_TRANSITION_WIDTH, 1),
        rows_of(MIN_TYPED_SHORTHAND - STYLE_TRANSITION_WIDTH, 2),
    )
    return fit_gated_regression(
        np.concatenate([typed[0], dictated[0]]),
        np.concatenate([typed[1], dictated[1]]),
        COLUMNS,
    )


@pytest.mark.parametrize(
    ("style", "slope"),
    [
        (MIN_TYPED_SHORTHAND + STYLE_TRANSITION_WIDTH, 4.0),
        (MIN_TYPED_SHORTHAND - STYLE_TRANSITION_WIDTH, 0.0),
    ],
)
def test_a_column_weighs_as_much_as_the_style_of_the_note_gives_it(
    fitted: StyleGatedRegression, style: float, slope: float
) -> None:
    low, high = fitted.contributions(np.array([[style, -0.5], [style, 0.5]])).sum(1)
    assert high - low == pytest.approx(slope, abs=0.4)


def test_probabilities_are_those_of_the_data(fitted: StyleGatedRegression) -> None:
    rows, truth = rows_of(MIN_TYPED_SHORTHAND + STYLE_TRANSITION_WIDTH, 3)
    log_odds = fitted.contributions(rows).sum(1) + fitted.bias
    probabilities = 1 / (1 + np.exp(-log_odds))
    assert probabilities.mean() == pytest.approx(truth.mean(), abs=0.04)


def test_a_change_of_one_column_changes_its_own_contribution_alone(
    fitted: StyleGatedRegression,
) -> None:
    rows, _ = rows_of(MIN_TYPED_SHORTHAND + STYLE_TRANSITION_WIDTH, 4, count=5)
    moved = rows.copy()
    moved[:, 1] += 1.0
    change = fitted.contributions(moved) - fitted.contributions(rows)
    assert np.allclose(change[:, 0], 0.0)
    assert (change[:, 1] > 3.0).all()
