"""Fit the engine's regression on cases and their keys. Needs numpy alone.

Settings and features were chosen by cross-validation over cases (docs/engine-log.md).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from archqa.core.case import Case
from archqa.core.case_digest import case_digest
from archqa.core.key import CaseKey
from archqa.engine import gated_regression
from archqa.engine.cross_encoder import default_cross_encoder, default_cross_encoder_sha256
from archqa.engine.evaluation_statistics import assign_folds, max_expected_f1
from archqa.engine.features import FeatureTable, feature_table
from archqa.engine.logistic_regression import FloatArray
from archqa.engine.model import Model
from archqa.engine.training.out_of_fold import load_out_of_fold_logits

LabelledCase = tuple[Case, CaseKey]
LabelledSets = dict[str, list[LabelledCase]]
"""Labelled cases by the name of their file."""
ProgressCallback = Callable[[str, int, int], None]
"""Called with the name of the stage, the number of steps done, and the total."""

PSEUDO_SENTENCES = 10.0
"""Sentences of an average corpus that selection adds to every case."""
FOLDS = 8
MADE_BY = "archqa.evidence.training"
"""Provenance in the shipped file; the module's name at the time, so that a refit is identical."""


class TrainingExample(NamedTuple):
    """A case ready for fitting: its features and, for every sentence, 1 where it is essential."""

    case: Case
    table: FeatureTable
    essential: FloatArray


def no_progress(stage: str, done: int, total: int) -> None:
    """Report nothing: the default progress callback."""


def build_examples(
    labelled_cases: Sequence[LabelledCase], progress: ProgressCallback = no_progress
) -> list[TrainingExample]:
    """Compute the features of every case that has sentences.

    A sentence that the key does not label counts as not essential. Cases that the cross-encoder was
    trained on get out-of-fold logits.
    """
    examples = []
    for done, (case, key) in enumerate(labelled_cases, start=1):
        if case.sentences:
            essential = np.array([sid in key.essential for sid in case.sentence_ids], dtype=float)
            table = feature_table(case, _unbiased_logits(case))
            examples.append(TrainingExample(case, table, essential))
        progress("features", done, len(labelled_cases))
    return examples


def _unbiased_logits(case: Case) -> FloatArray:
    """Return out-of-fold logits, else the shipped cross-encoder's for a case new to it."""
    out_of_fold = load_out_of_fold_logits().get(case_digest(case))
    if out_of_fold is not None:
        return out_of_fold
    return default_cross_encoder().logits(case)


def train(
    labelled_cases: Sequence[LabelledCase],
    *,
    auxiliary_cases: Iterable[Case] = (),
    seed: int = 0,
    progress: ProgressCallback = no_progress,
) -> Model:
    """Fit a model on `labelled_cases`. The same cases and seed give the same model.

    `auxiliary_cases` are those the cross-encoder was trained on: the model records their digests.
    """
    examples = build_examples(labelled_cases, progress=progress)
    out_of_fold = cross_fit(examples, seed=seed, progress=progress)
    expected_f1 = max_expected_f1(np.concatenate(out_of_fold))
    fitted = fit(examples, expected_f1=expected_f1, seed=seed)
    digests = tuple(case_digest(case) for case in auxiliary_cases)
    return fitted.model_copy(update={"reader_further": digests})


def cross_fit(
    examples: list[TrainingExample],
    *,
    seed: int = 0,
    folds: int = FOLDS,
    progress: ProgressCallback = no_progress,
) -> list[FloatArray]:
    """Return the probabilities of every case by a model fitted without its fold of cases."""
    fold_of_case = assign_folds(len(examples), folds, seed)
    probabilities: list[FloatArray] = [np.zeros(0)] * len(examples)
    for fold in range(folds):
        in_training = fold_of_case != fold
        training_examples = [examples[index] for index in np.flatnonzero(in_training)]
        model = fit(training_examples)
        for index in np.flatnonzero(~in_training):
            logits = model.logits(examples[index].table)
            probabilities[index] = 1 / (1 + np.exp(-logits))
        progress("folds", fold + 1, folds)
    return probabilities


def fit(examples: list[TrainingExample], *, expected_f1: float = 0.5, seed: int = 0) -> Model:
    """Fit the regression on all sentences of `examples`."""
    columns = gated_regression.FEATURE_COLUMNS
    rows = np.concatenate([example.table.matrix(columns) for example in examples])
    essential = np.concatenate([example.essential for example in examples])
    return Model(
        linear=gated_regression.fit(rows, essential),
        expected_f1=expected_f1,
        mass=PSEUDO_SENTENCES,
        fitted_on=tuple(case_digest(example.case) for example in examples),
        seed=seed,
        reader_sha256=default_cross_encoder_sha256(),
        made_by=MADE_BY,
    )
