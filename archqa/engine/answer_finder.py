"""Finds the sentences of a note that answer a short question, and how likely the note answers it.

The contest's evidence selection (`engine.py`) expects five to ten sentences that an answer to a
patient's message needs; a short question is answered by one or two, or not at all.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.engine.cross_encoder import (
    CrossEncoder,
    default_cross_encoder,
    default_cross_encoder_sha256,
)

MAX_SELECTED = 4
MARGIN = 0.5


class Finding(NamedTuple):
    """What the engine finds about one question in one note.

    `probabilities` (sentences,) that a sentence carries the answer or a part of it; `answerable`,
    calibrated, that the note answers at all; `selected` are the indices of the sentences that
    answer best, the best one at the front, whether or not the note is likely to answer;
    `is_answered` whether `answerable` passes the threshold.
    """

    probabilities: NDArray[np.float64]
    answerable: float
    selected: tuple[int, ...]
    is_answered: bool


class AnswerFinder:
    """Reads a question and a note. Use `AnswerFinder.load`; safe to share among threads."""

    def __init__(self, cross_encoder: CrossEncoder) -> None:
        self._cross_encoder = cross_encoder
        self.fingerprint = default_cross_encoder_sha256()

    @staticmethod
    @cache
    def load() -> "AnswerFinder":
        """Return the shipped one, loaded once."""
        return AnswerFinder(default_cross_encoder())

    def find(self, case: Case, excluded: frozenset[int] = frozenset()) -> Finding:
        """Find the answer to the case's question; sentences at `excluded` indices are no evidence."""
        logits = self._cross_encoder.logits(case)
        logits[list(excluded)] = -np.inf
        probabilities = 1 / (1 + np.exp(-logits))
        order = np.argsort(-logits, kind="stable")
        near = [int(index) for index in order if logits[index] >= logits.max() - MARGIN]
        answerable = float(probabilities.max(initial=0.0))
        return Finding(probabilities, answerable, tuple(near[:MAX_SELECTED]), answerable > 0.5)
