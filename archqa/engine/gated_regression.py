"""The model of the engine: a logistic regression over a few columns, gated by the note's style.

In a typed note all columns speak, in a dictated one the reader alone: there the others are noise to a reader that
knows better (README.md, sixth round). Notes between the two kinds get some of both.
"""

import numpy as np
from numpy.typing import NDArray

from archqa.core.value import FrozenModel
from archqa.engine import logistic_regression
from archqa.notes.sections import MIN_TYPED_SHORTHAND

Floats = NDArray[np.float64]

FEATURE_COLUMNS = (
    "reader.logit", "reader.standing", "reader.before", "reader.after", "reader.best", "reader.evidence",
    "shape.telegraphic", "shape.heading", "shape.length", "shape.position", "shape.note",
    "topic.question", "around.block_topic_best", "words.question", "words.phrase",
)  # fmt: skip
"""The reader's verdicts and what is plainest of the rest."""
CROSS_ENCODER_COLUMN = "reader.logit"
"""The one column that dictated notes go by."""
STYLE_COLUMN = "shape.telegraphic"
STYLE_TRANSITION_WIDTH = 0.05
"""How far from `MIN_TYPED_SHORTHAND` the share of shorthand is in a note that is wholly of one kind."""
RIDGE, SURE = 10.0, 1.0
"""How strongly weights are held back; and those of the reader's own verdict and of the style, which need it little."""


class StyleGatedRegression(FrozenModel):
    """Weights of columns in typed notes, of the reader in dictated ones, of the style; columns are standardised."""

    columns: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    typed: tuple[float, ...]
    dictated: float
    style: float
    bias: float

    def contributions(self, rows: Floats) -> Floats:
        """What each column adds to each log-odds: of the shape of `rows`, (sentences, columns)."""
        weights = np.array([*self.typed, self.dictated, self.style])
        added = _design(rows, self.columns, np.array(self.centre), np.array(self.scale)) * weights
        own: Floats = added[:, : len(self.columns)]
        own[:, self.columns.index(CROSS_ENCODER_COLUMN)] += added[:, -2]
        own[:, self.columns.index(STYLE_COLUMN)] += added[:, -1]
        return own


def fit(
    rows: Floats, truth: Floats, columns: tuple[str, ...] = FEATURE_COLUMNS
) -> StyleGatedRegression:
    """The regression of `truth` (1 where essential) on `rows`, of shape (sentences, columns)."""
    centre, scale = rows.mean(0), np.maximum(rows.std(0), 1e-6)
    design = np.column_stack([_design(rows, columns, centre, scale), np.ones(len(rows))])
    ridge = np.array(
        [*(SURE if name == CROSS_ENCODER_COLUMN else RIDGE for name in columns), SURE, SURE, 0.0]
    )
    weights = logistic_regression.fit(
        design, truth, prior=np.zeros(design.shape[1]), ridge=ridge
    ).tolist()
    return StyleGatedRegression(
        columns=columns,
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        typed=tuple(weights[: len(columns)]),
        dictated=weights[-3],
        style=weights[-2],
        bias=weights[-1],
    )


def _design(rows: Floats, columns: tuple[str, ...], centre: Floats, scale: Floats) -> Floats:
    """The columns as far as the note is typed (0 to 1), the reader's as far as it is dictated, and how typed it is."""
    style = (rows[:, [columns.index(STYLE_COLUMN)]] - MIN_TYPED_SHORTHAND) / STYLE_TRANSITION_WIDTH
    typed = (np.clip(style, -1.0, 1.0) + 1) / 2
    own = (rows - centre) / scale
    return np.hstack(
        [own * typed, own[:, [columns.index(CROSS_ENCODER_COLUMN)]] * (1 - typed), typed]
    )
