"""Selection of the set of sentences with the highest expected F score.

For F1 over independent sentences the best set has every sentence with p above F*/2, where F* is
the F1 it reaches (Lewis 1995; Lipton, Elkan, Narayanaswamy 2014): about .31 where F* is .62, not
.5. The score is computed over a corpus, the selection case by case: so the pseudo-sentences of an
average corpus are added to each case, which pulls its threshold towards the corpus's.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.near_misses import unknown_name

OperatingPoint = Literal["f1", "precision", "recall"]
BETA: dict[OperatingPoint, float] = {"f1": 1.0, "precision": 0.5, "recall": 2.0}
"""The weight of recall against precision (van Rijsbergen's beta)."""


class SelectionPrior(NamedTuple):
    """What to expect of a corpus.

    `pseudo_sentences` is how many selected plus essential sentences of it are added to a case.
    """

    expected_f1: float
    pseudo_sentences: float


def select_sentences(
    probabilities: NDArray[np.float64],
    prior: SelectionPrior,
    operating_point: str = "f1",
) -> NDArray[np.int64]:
    """Return the indices of the selected sentences, the most probable first.

    At least one is selected where there is any. Raises CallerError for an unknown operating point.
    """
    beta_squared = BETA[_parse_operating_point(operating_point)] ** 2
    order: NDArray[np.int64] = np.argsort(-probabilities, kind="stable").astype(
        np.int64
    )
    if not len(order):
        return order
    expected_hits = np.cumsum(probabilities[order])
    selected = np.arange(1, len(order) + 1)
    prior_hits = prior.expected_f1 * prior.pseudo_sentences / 2
    prior_total = (1 + beta_squared) * prior.pseudo_sentences / 2
    numerator = (1 + beta_squared) * (expected_hits + prior_hits)
    expected_f = numerator / (selected + beta_squared * expected_hits[-1] + prior_total)
    return order[: int(np.argmax(expected_f)) + 1]


def _parse_operating_point(name: str) -> OperatingPoint:
    for operating_point in BETA:
        if name == operating_point:
            return operating_point
    raise unknown_name("operating point", name, BETA)
