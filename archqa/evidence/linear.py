"""The steady half of the model: a logistic regression over a few columns, each also crossed with the note's style.

Trees find what few cases seem to show; a sum of a dozen columns cannot, and carries over better to unseen notes.
"""

import numpy as np
from numpy.typing import NDArray

from archqa.core.value import Value
from archqa.evidence import logistic
from archqa.evidence.note import DICTATED

Floats = NDArray[np.float64]

COLUMNS = (
    "reader.logit", "reader.standing", "reader.before", "reader.after", "reader.best", "reader.evidence",
    "shape.telegraphic", "shape.heading", "shape.length", "shape.position", "shape.note",
    "topic.question", "around.block_topic_best", "words.question", "words.phrase",
)  # fmt: skip
"""The reader's verdicts and what is plainest of the rest."""
STYLE = "shape.telegraphic"
SPREAD = 0.05
"""How far from `DICTATED` the share of shorthand is in a note that is wholly of one kind."""
RIDGE = 10 / 3


class Linear(Value):
    """Weights of columns, then of the same columns times the style; all are centred and scaled first."""

    columns: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    def contributions(self, rows: Floats) -> Floats:
        """What each column adds to each log-odds: of the shape of `rows`, (sentences, columns)."""
        both = crossed(rows, self.columns)
        added = (both - np.array(self.centre)) / np.array(self.scale) * np.array(self.weights)
        summed: Floats = added[:, : len(self.columns)] + added[:, len(self.columns) :]
        return summed


def fit(rows: Floats, truth: Floats, columns: tuple[str, ...] = COLUMNS) -> Linear:
    """The regression of `truth` (1 where essential) on `rows`, of shape (sentences, columns)."""
    both = crossed(rows, columns)
    centre, scale = both.mean(0), np.maximum(both.std(0), 1e-6)
    design = np.column_stack([(both - centre) / scale, np.ones(len(both))])
    ridge = np.full(design.shape[1], RIDGE)
    ridge[-1] = 0.0
    weights = logistic.fit(design, truth, prior=np.zeros(design.shape[1]), ridge=ridge)
    return Linear(
        columns=columns,
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        weights=tuple(weights[:-1].tolist()),
        bias=float(weights[-1]),
    )


def crossed(rows: Floats, columns: tuple[str, ...]) -> Floats:
    """The columns beside themselves times the style: −1 in a dictated note, 1 in a typed one."""
    style = np.clip((rows[:, [columns.index(STYLE)]] - DICTATED) / SPREAD, -1.0, 1.0)
    return np.hstack([rows, rows * style])
