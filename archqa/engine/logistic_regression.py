"""Logistic regression with a ridge penalty towards a prior.

Newton's method (iteratively reweighted least squares; McCullagh and Nelder 1989, section 4.4).
"""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_MAX_ITERATIONS = 60
_TOLERANCE = 1e-9
_MAX_STEP = 2.0
"""Log-odds by which a weight may move at once: larger steps overshoot on separable classes."""


def logit(probability: FloatArray) -> FloatArray:
    """Return the log-odds of probabilities strictly between 0 and 1."""
    log_odds: FloatArray = np.log(probability / (1 - probability))
    return log_odds


def expit(logits: FloatArray) -> FloatArray:
    """Return the probabilities of log-odds."""
    probabilities: FloatArray = 1 / (1 + np.exp(-np.clip(logits, -40.0, 40.0)))
    return probabilities


def fit(
    rows: FloatArray,
    labels: FloatArray,
    *,
    prior: FloatArray,
    ridge: FloatArray,
) -> FloatArray:
    """Return weights (columns,) for `rows` (rows, columns) and `labels` (rows,) of 0 and 1.

    The loss is the negative log-likelihood plus, for every weight, ridge/2 times its squared
    distance from `prior`.
    """
    weights = prior.astype(np.float64).copy()
    for _ in range(_MAX_ITERATIONS):
        probabilities = expit(rows @ weights)
        gradient = rows.T @ (probabilities - labels) + ridge * (weights - prior)
        variance = probabilities * (1 - probabilities)
        hessian = (rows * variance[:, None]).T @ rows + np.diag(ridge + 1e-9)
        step = np.linalg.solve(hessian, gradient)
        step = step / max(1.0, float(np.abs(step).max()) / _MAX_STEP)
        weights = weights - step
        if float(np.abs(step).max()) < _TOLERANCE:
            break
    return weights
