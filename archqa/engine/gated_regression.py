"""The engine's model: a logistic regression over a few columns, gated by the note's style.

In a typed note all columns count, in a dictated one the cross-encoder's logit alone: there the
rest is noise (docs/engine-log.md, sixth round). Notes between the two styles get a mixture.
"""

import numpy as np
from numpy.typing import NDArray

from archqa.core.value import FrozenModel
from archqa.engine import logistic_regression
from archqa.notes.sections import MIN_TYPED_SHORTHAND

Floats = NDArray[np.float64]

CROSS_ENCODER_COLUMN = "reader.logit"
"""The one column that counts in dictated notes."""
STYLE_COLUMN = "shape.telegraphic"
"""The share of shorthand in the note."""
FEATURE_COLUMNS = (
    CROSS_ENCODER_COLUMN,
    "reader.standing",
    "reader.before",
    "reader.after",
    "reader.best",
    "reader.evidence",
    STYLE_COLUMN,
    "shape.heading",
    "shape.length",
    "shape.position",
    "shape.note",
    "topic.question",
    "around.block_topic_best",
    "words.question",
    "words.phrase",
)
STYLE_TRANSITION_WIDTH = 0.05
"""Distance from `MIN_TYPED_SHORTHAND` at which a note is wholly of one style."""
RIDGE = 10.0
WEAK_RIDGE = 1.0
"""Penalty for the weights of the cross-encoder's logit and of the style, which need little."""


class StyleGatedRegression(FrozenModel):
    """Weights for standardised columns.

    `typed` are the weights of all columns in typed notes, `dictated` that of the cross-encoder's
    logit in dictated ones, `style` that of the style itself.
    """

    columns: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    typed: tuple[float, ...]
    dictated: float
    style: float
    bias: float

    def contributions(self, rows: Floats) -> Floats:
        """Return what each column adds to the log-odds, of the shape of `rows` (rows, columns)."""
        weights = np.array([*self.typed, self.dictated, self.style])
        design = _design_matrix(rows, self.columns, np.array(self.centre), np.array(self.scale))
        weighted = design * weights
        by_column: Floats = weighted[:, : len(self.columns)]
        by_column[:, self.columns.index(CROSS_ENCODER_COLUMN)] += weighted[:, -2]
        by_column[:, self.columns.index(STYLE_COLUMN)] += weighted[:, -1]
        return by_column


def fit(
    rows: Floats,
    essential: Floats,
    columns: tuple[str, ...] = FEATURE_COLUMNS,
) -> StyleGatedRegression:
    """Fit `essential` (0 or 1, of shape (rows,)) on `rows` of shape (rows, columns)."""
    centre = rows.mean(0)
    scale = np.maximum(rows.std(0), 1e-6)
    design = _design_matrix(rows, columns, centre, scale)
    design = np.column_stack([design, np.ones(len(rows))])
    prior = np.zeros(design.shape[1])
    fitted = logistic_regression.fit(design, essential, prior=prior, ridge=_ridge(columns))
    *typed, dictated, style, bias = fitted.tolist()
    return StyleGatedRegression(
        columns=columns,
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        typed=tuple(typed),
        dictated=dictated,
        style=style,
        bias=bias,
    )


def _ridge(columns: tuple[str, ...]) -> Floats:
    """Return the penalties of the columns, the dictated weight, the style and the bias."""
    penalties = np.full(len(columns), RIDGE)
    penalties[columns.index(CROSS_ENCODER_COLUMN)] = WEAK_RIDGE
    return np.array([*penalties, WEAK_RIDGE, WEAK_RIDGE, 0.0])


def _design_matrix(rows: Floats, columns: tuple[str, ...], centre: Floats, scale: Floats) -> Floats:
    """Return the columns times how typed the note is, the logit times how dictated, and the style.

    The style is 0 in dictated notes, 1 in typed ones.
    """
    shorthand = rows[:, [columns.index(STYLE_COLUMN)]]
    distance = (shorthand - MIN_TYPED_SHORTHAND) / STYLE_TRANSITION_WIDTH
    typed = (np.clip(distance, -1.0, 1.0) + 1) / 2
    standardised = (rows - centre) / scale
    logit = standardised[:, [columns.index(CROSS_ENCODER_COLUMN)]]
    return np.hstack([standardised * typed, logit * (1 - typed), typed])
