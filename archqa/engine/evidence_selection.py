"""From probabilities to a set: the one with the greatest expected F.

For F1 over independent sentences the best set takes every p above F*/2, F* being the F reached (Lewis 1995; Lipton,
Elkan, Narayanaswamy 2014): about .31 where F* is .62, not .5. The score counts over a corpus, the choice is made case
by case: `mass` sentences of an average corpus are counted in, which pulls a lone case towards the corpus's threshold.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from archqa.errors import CallerError

OperatingPoint = Literal["f1", "precision", "recall"]
BETA: dict[OperatingPoint, float] = {"f1": 1.0, "precision": 0.5, "recall": 2.0}
"""The weight of recall against precision (van Rijsbergen's beta)."""


class SelectionPrior(NamedTuple):
    """What is expected of a corpus: its F and how many chosen-plus-essential sentences of it are counted in."""

    expected_f1: float
    mass: float


def select_sentences(
    probabilities: NDArray[np.float64], corpus: SelectionPrior, point: str = "f1"
) -> NDArray[np.int64]:
    """Places of the chosen sentences, the likeliest first; at least one where there is any. Raises CallerError."""
    beta = BETA[_known(point)] ** 2
    order: NDArray[np.int64] = np.argsort(-probabilities, kind="stable").astype(np.int64)
    if not len(order):
        return order
    gained = np.cumsum(probabilities[order])
    size = np.arange(1, len(order) + 1)
    hits = (1 + beta) * (gained + corpus.expected_f1 * corpus.mass / 2)
    expected = hits / (size + beta * gained[-1] + (1 + beta) * corpus.mass / 2)
    return order[: int(np.argmax(expected)) + 1]


def _known(point: str) -> OperatingPoint:
    for known in get_args(OperatingPoint):
        if point == known:
            return point  # type: ignore[return-value]
    raise CallerError(
        f"There is no operating point {point!r}.\nThere are: {', '.join(get_args(OperatingPoint))}."
    )
