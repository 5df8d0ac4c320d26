"""Logistic regression with a ridge towards a prior belief: few weights, few data, one answer.

Newton's method (iteratively reweighted least squares; McCullagh and Nelder 1989, §4.4).
"""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_STEPS = 60
_STILL = 1e-9


def logit(probability: FloatArray) -> FloatArray:
    """Log-odds of probabilities strictly between 0 and 1."""
    odds: FloatArray = np.log(probability / (1 - probability))
    return odds


def expit(logits: FloatArray) -> FloatArray:
    """The probability of log-odds."""
    probabilities: FloatArray = 1 / (1 + np.exp(-np.clip(logits, -40.0, 40.0)))
    return probabilities


def fit(rows: FloatArray, truth: FloatArray, *, prior: FloatArray, ridge: FloatArray) -> FloatArray:
    """Weights of shape (columns,) for `rows` (rows, columns) and `truth` (rows,) of 0 and 1.

    `ridge` says, weight by weight, how firmly `prior` is held: the loss is the negative log-likelihood plus
    ridge/2 times the squared distance from the prior.
    """
    weights = prior.astype(np.float64).copy()
    for _ in range(_STEPS):
        said = expit(rows @ weights)
        slope = rows.T @ (said - truth) + ridge * (weights - prior)
        curve = (rows * (said * (1 - said))[:, None]).T @ rows + np.diag(ridge + 1e-9)
        step = np.linalg.solve(curve, slope)
        # A step of more than two log-odds a column overshoots where the classes part cleanly.
        step = step / max(1.0, float(np.abs(step).max()) / 2.0)
        weights = weights - step
        if float(np.abs(step).max()) < _STILL:
            break
    return weights
