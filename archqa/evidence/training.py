"""Fitting the engine from cases and their keys: one logistic model, and what selection needs.

numpy alone: a ridge-penalised logistic regression by Newton's method. The penalty and the features were chosen by cross-fit
over cases (see README.md).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.evidence.digest import case_digest
from archqa.evidence.encoder import Encoder, default_encoder
from archqa.evidence.features import Matrix, Table, table
from archqa.evidence.model import CLIP, Model, Weight

Labelled = tuple[Case, CaseKey]
Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, and of how many."""
Binary = NDArray[np.float64]

PENALTY = 100.0
"""Ridge penalty on standardised weights, in units of the log-likelihood of one sentence."""
MASS = 10.0
"""Sentences of an average corpus that selection counts in."""
FOLDS = 8
LOWEST_SPREAD = 1e-3
"""A column that hardly varies is left out."""


class Example(NamedTuple):
    """A case ready for fitting: its columns and, one a sentence, 1 where essential."""

    case: Case
    table: Table
    essential: Binary


def silent(what: str, done: int, of: int) -> None:
    """The progress callback that says nothing."""


def prepare(pairs: list[Labelled], encoder: Encoder | None = None, progress: Progress = silent) -> list[Example]:
    """Features of every case with a sentence; a sentence that the key does not name counts as not essential."""
    encoder, examples = encoder or default_encoder(), []
    for done, (case, key) in enumerate(pairs):
        if case.sentences:
            essential = np.array([float(sid in key.essential) for sid in case.sentence_ids])
            examples.append(Example(case, table(case, encoder), essential))
        progress("features", done + 1, len(pairs))
    return examples


def train(pairs: list[Labelled], *, seed: int = 0, progress: Progress = silent) -> Model:
    """Fits a model on `pairs`. The same pairs and seed give the same model."""
    examples = prepare(pairs, progress=progress)
    held_out = cross_fit(examples, seed=seed, progress=progress)
    return fit(examples, expected_f1=expected_f1(np.concatenate(held_out)), seed=seed)


def cross_fit(
    examples: list[Example], *, seed: int = 0, folds: int = FOLDS, progress: Progress = silent
) -> list[Binary]:
    """Log-odds turned probabilities of every case by a model that never saw it; folds are drawn over cases."""
    fold = folds_of(len(examples), folds, seed)
    found: list[Binary] = [np.zeros(0)] * len(examples)
    for each in range(folds):
        model = fit([example for at, example in enumerate(examples) if fold[at] != each])
        for at in np.flatnonzero(fold == each):
            found[at] = 1 / (1 + np.exp(-model.logits(examples[at].table)))
        progress("folds", each + 1, folds)
    return found


def folds_of(cases: int, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each case, of shape (cases,), as even as can be."""
    shuffled: NDArray[np.int64] = np.random.default_rng(seed).permutation(np.arange(cases) % folds)
    return shuffled


def fit(examples: list[Example], *, expected_f1: float = 0.5, seed: int = 0) -> Model:
    """One penalised logistic regression over all sentences of `examples`."""
    names = tuple(examples[0].table.columns)
    rows = np.concatenate([example.table.matrix(names) for example in examples])
    mean, scale = rows.mean(0), rows.std(0)
    kept = scale > LOWEST_SPREAD
    standard = np.clip((rows[:, kept] - mean[kept]) / scale[kept], -CLIP, CLIP)
    weights, bias = _newton(standard, np.concatenate([example.essential for example in examples]))
    named = zip(np.array(names)[kept], mean[kept], scale[kept], weights, strict=True)
    return Model(
        weights=tuple(Weight(name=str(n), mean=float(m), scale=float(s), weight=float(w)) for n, m, s, w in named),
        bias=bias,
        expected_f1=expected_f1,
        mass=MASS,
        fitted_on=tuple(case_digest(example.case) for example in examples),
        seed=seed,
        made_by="archqa.evidence.training",
    )


def expected_f1(probabilities: Binary) -> float:
    """The greatest expected F1 over all sentences at once, if the probabilities are true."""
    ranked = np.sort(probabilities)[::-1]
    size = np.arange(1, len(ranked) + 1)
    return float((2 * np.cumsum(ranked) / (size + ranked.sum())).max())


def _newton(rows: Matrix, truth: Binary, steps: int = 30) -> tuple[Binary, float]:
    design = np.column_stack([rows, np.ones(len(rows))])
    ridge = np.full(design.shape[1], PENALTY)
    ridge[-1] = 1e-6
    weights = np.zeros(design.shape[1])
    for _ in range(steps):
        said = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (said - truth) + ridge * weights
        curve = (design * (said * (1 - said))[:, None]).T @ design + np.diag(ridge)
        step = np.linalg.solve(curve, slope)
        weights = weights - step
        if np.abs(step).max() < 1e-7:
            break
    return weights[:-1], float(weights[-1])
