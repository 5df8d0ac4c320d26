"""Fitting the engine from cases and their keys: a regression over features, and what selection needs.

numpy alone. Settings and features were chosen by cross-fit over cases (README.md).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.case_digest import case_digest
from archqa.core.key import CaseKey
from archqa.engine import gated_regression
from archqa.engine.cross_encoder import (
    CrossEncoder,
    default_cross_encoder,
    default_cross_encoder_sha256,
)
from archqa.engine.features import FeatureTable, feature_table
from archqa.engine.model import Model
from archqa.engine.training.out_of_fold import load_out_of_fold_logits

LabelledCase = tuple[Case, CaseKey]
LabelledSets = dict[str, list[LabelledCase]]
"""Labelled cases by the name of their file."""
ProgressCallback = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, and of how many."""
Binary = NDArray[np.float64]

PRIOR_SENTENCES = 10.0
"""Sentences of an average corpus that selection counts in."""
FOLDS = 8


class TrainingExample(NamedTuple):
    """A case ready for fitting: its columns and, one a sentence, 1 where essential."""

    case: Case
    table: FeatureTable
    essential: Binary


def no_progress(what: str, done: int, of: int) -> None:
    """The progress callback that says nothing."""


def build_examples(
    pairs: list[LabelledCase], progress: ProgressCallback = no_progress
) -> list[TrainingExample]:
    """Features of every case with a sentence; a sentence that the key does not name counts as not essential.

    Of cases that the reader was trained on, the verdicts are those of readers that were not (`heldout`).
    """
    reader, examples = default_cross_encoder(), list[TrainingExample]()
    for done, (case, key) in enumerate(pairs):
        if case.sentences:
            essential = np.array([float(sid in key.essential) for sid in case.sentence_ids])
            examples.append(
                TrainingExample(case, feature_table(case, _unseen(case, reader)), essential)
            )
        progress("features", done + 1, len(pairs))
    return examples


def _unseen(case: Case, reader: CrossEncoder) -> Binary:
    kept = load_out_of_fold_logits().get(case_digest(case))
    return reader.logits(case) if kept is None else kept


def train(
    pairs: list[LabelledCase],
    *,
    further: Iterable[Case] = (),
    seed: int = 0,
    progress: ProgressCallback = no_progress,
) -> Model:
    """Fits a model on `pairs`. The same pairs and seed give the same model.

    `further` are the cases that the reader was trained on: the model only notes which.
    """
    examples = build_examples(pairs, progress=progress)
    held_out = cross_fit(examples, seed=seed, progress=progress)
    fitted = fit(examples, expected_f1=max_expected_f1(np.concatenate(held_out)), seed=seed)
    return fitted.model_copy(
        update={"reader_further": tuple(case_digest(case) for case in further)}
    )


def cross_fit(
    examples: list[TrainingExample],
    *,
    seed: int = 0,
    folds: int = FOLDS,
    progress: ProgressCallback = no_progress,
) -> list[Binary]:
    """Probabilities of every case by a model that never saw it; folds are drawn over cases."""
    fold = assign_folds(len(examples), folds, seed)
    found: list[Binary] = [np.zeros(0)] * len(examples)
    for each in range(folds):
        model = fit([example for at, example in enumerate(examples) if fold[at] != each])
        for at in np.flatnonzero(fold == each):
            found[at] = 1 / (1 + np.exp(-model.logits(examples[at].table)))
        progress("folds", each + 1, folds)
    return found


def assign_folds(cases: int, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each case, of shape (cases,), as even as can be."""
    shuffled: NDArray[np.int64] = np.random.default_rng(seed).permutation(np.arange(cases) % folds)
    return shuffled


def fit(examples: list[TrainingExample], *, expected_f1: float = 0.5, seed: int = 0) -> Model:
    """The regression over all sentences of `examples`."""
    rows = np.concatenate(
        [example.table.matrix(gated_regression.FEATURE_COLUMNS) for example in examples]
    )
    truth = np.concatenate([example.essential for example in examples])
    return Model(
        linear=gated_regression.fit(rows, truth),
        expected_f1=expected_f1,
        mass=PRIOR_SENTENCES,
        fitted_on=tuple(case_digest(example.case) for example in examples),
        seed=seed,
        reader_sha256=default_cross_encoder_sha256(),
        made_by="archqa.engine.training.regression",
    )


def max_expected_f1(probabilities: Binary) -> float:
    """The greatest expected F1 over all sentences at once, if the probabilities are true."""
    ranked = np.sort(probabilities)[::-1]
    size = np.arange(1, len(ranked) + 1)
    return float((2 * np.cumsum(ranked) / (size + ranked.sum())).max())
