"""Statistics shared by fitting and evaluation: folds, reliability and expected F1."""

import numpy as np
from numpy.typing import NDArray

from archqa.core.value import FrozenModel

FloatArray = NDArray[np.float64]

RELIABILITY_BINS = 10


class Bin(FrozenModel):
    """Sentences with a probability between `low` and `high`.

    `true` is the proportion of them that are essential.
    """

    low: float
    high: float
    sentences: int
    mean_probability: float
    true: float


def assign_folds(cases: int, folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of each case, of shape (cases,); fold sizes differ by at most one."""
    fold_numbers = np.arange(cases) % folds
    shuffled: NDArray[np.int64] = np.random.default_rng(seed).permutation(fold_numbers)
    return shuffled


def max_expected_f1(probabilities: FloatArray) -> float:
    """Return the highest expected F1 over all sentences together, if `probabilities` are true."""
    ranked = np.sort(probabilities)[::-1]
    selected = np.arange(1, len(ranked) + 1)
    expected_f1 = 2 * np.cumsum(ranked) / (selected + ranked.sum())
    return float(expected_f1.max())


def reliability_bins(probabilities: FloatArray, essential: FloatArray) -> tuple[Bin, ...]:
    """Group sentences into ten bins of equal width by probability; empty bins are left out."""
    bin_numbers = (probabilities * RELIABILITY_BINS).astype(int)
    bin_numbers = np.minimum(bin_numbers, RELIABILITY_BINS - 1)
    bins = []
    for number in np.unique(bin_numbers).tolist():
        members = bin_numbers == number
        bins.append(
            Bin(
                low=number / RELIABILITY_BINS,
                high=(number + 1) / RELIABILITY_BINS,
                sentences=int(members.sum()),
                mean_probability=float(probabilities[members].mean()),
                true=float(essential[members].mean()),
            )
        )
    return tuple(bins)


def expected_calibration_error(bins: tuple[Bin, ...]) -> float:
    """Return the mean distance of probability and truth, weighted by sentences; 0 without bins."""
    distance = 0.0
    sentences = 0
    for group in bins:
        distance += group.sentences * abs(group.mean_probability - group.true)
        sentences += group.sentences
    return distance / max(sentences, 1)
