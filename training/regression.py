"""Fitting of the engine's regression on cases and their keys. Needs numpy alone.

Settings and features were chosen by cross-validation over cases (engine-log.md).

The regression may be fitted only on logits by cross-encoders that were not trained on the case. The
shipped cross-encoder was trained on the cases with a key; `data/out_of_fold_logits.tsv` has, by case
digest, the logits of their sentences by cross-encoders trained in the same way without the case's
fold (`cross_encoder.fine_tune_by_fold`).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case, case_digest
from archqa.core.key import CaseKey
from archqa.core.tables import read_rows
from archqa.core.value import FrozenModel
from archqa.engine.encoders import CROSS_ENCODER_FILE, default_cross_encoder
from archqa.engine.engine import (
    CROSS_ENCODER_COLUMN,
    STYLE_COLUMN,
    Model,
    StyleGatedRegression,
    design_matrix,
)
from archqa.engine.features import FeatureTable, cross_encoder_features, text_features
from archqa.engine.networks import files_sha256
from archqa.safety.files import storage_errors, write_private_text
from training.corpora import DATA_DIR

FloatArray = NDArray[np.float64]
LabelledCase = tuple[Case, CaseKey]
LabelledSets = dict[str, list[LabelledCase]]
"""Labelled cases by the name of their file."""
ProgressCallback = Callable[[str, int, int], None]
"""Called with the name of the stage, the number of steps done, and the total."""

PSEUDO_SENTENCES = 10.0
"""Sentences of an average corpus that selection adds to every case."""
FOLDS = 8
FEATURE_COLUMNS = (
    CROSS_ENCODER_COLUMN,
    "reader.standing",
    "reader.before",
    "reader.after",
    "reader.best",
    "reader.evidence",
    STYLE_COLUMN,
    "shape.heading",
    "shape.length",
    "shape.position",
    "shape.note",
    "topic.question",
    "around.block_topic_best",
    "words.question",
    "words.phrase",
)
RIDGE = 10.0
WEAK_RIDGE = 1.0
"""Penalty for the weights of the cross-encoder's logit and of the style, which need little."""
MAX_ITERATIONS = 60
TOLERANCE = 1e-9
MAX_STEP = 2.0
"""Log-odds by which a weight may move at once: larger steps overshoot on separable classes."""
OUT_OF_FOLD_FILE = DATA_DIR / "out_of_fold_logits.tsv"
OUT_OF_FOLD_HEADER = "# case digest\tlog-odds of each sentence, by a cross-encoder that was not trained on the case\n"
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
            essential = np.array(
                [sid in key.essential for sid in case.sentence_ids], dtype=float
            )
            columns = cross_encoder_features(_unbiased_logits(case)) | text_features(
                case
            )
            examples.append(TrainingExample(case, FeatureTable(columns), essential))
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
            probabilities[index] = 1 / (
                1 + np.exp(-logits(model, examples[index].table))
            )
        progress("folds", fold + 1, folds)
    return probabilities


def logits(model: Model, table: FeatureTable) -> FloatArray:
    """Return the log-odds of being essential, of shape (sentences,)."""
    log_odds: FloatArray = model.contributions(table).sum(1) + model.linear.bias
    return log_odds


def fit(
    examples: list[TrainingExample], *, expected_f1: float = 0.5, seed: int = 0
) -> Model:
    """Fit the regression on all sentences of `examples`."""
    rows = np.concatenate(
        [example.table.matrix(FEATURE_COLUMNS) for example in examples]
    )
    essential = np.concatenate([example.essential for example in examples])
    return Model(
        linear=fit_gated_regression(rows, essential),
        expected_f1=expected_f1,
        mass=PSEUDO_SENTENCES,
        fitted_on=tuple(case_digest(example.case) for example in examples),
        seed=seed,
        reader_sha256=files_sha256(
            CROSS_ENCODER_FILE, CROSS_ENCODER_FILE.with_suffix(".npz")
        ),
        made_by=MADE_BY,
    )


def fit_gated_regression(
    rows: FloatArray,
    essential: FloatArray,
    columns: tuple[str, ...] = FEATURE_COLUMNS,
) -> StyleGatedRegression:
    """Fit `essential` (0 or 1, of shape (rows,)) on `rows` of shape (rows, columns)."""
    centre = rows.mean(0)
    scale = np.maximum(rows.std(0), 1e-6)
    design = design_matrix(rows, columns, centre, scale)
    design = np.column_stack([design, np.ones(len(rows))])
    penalties = np.full(len(columns), RIDGE)
    penalties[columns.index(CROSS_ENCODER_COLUMN)] = WEAK_RIDGE
    # After the columns: the logit in dictated notes, the style, and the bias.
    ridge = np.array([*penalties, WEAK_RIDGE, WEAK_RIDGE, 0.0])
    *typed, dictated, style, bias = fit_logistic(design, essential, ridge).tolist()
    return StyleGatedRegression(
        columns=columns,
        centre=tuple(centre.tolist()),
        scale=tuple(scale.tolist()),
        typed=tuple(typed),
        dictated=dictated,
        style=style,
        bias=bias,
    )


def fit_logistic(rows: FloatArray, labels: FloatArray, ridge: FloatArray) -> FloatArray:
    """Return weights (columns,) for `rows` (rows, columns) and `labels` (rows,) of 0 and 1.

    The loss is the negative log-likelihood plus, for every weight, ridge/2 times its square. Newton's
    method (iteratively reweighted least squares; McCullagh and Nelder 1989, section 4.4).
    """
    weights = np.zeros(rows.shape[1])
    for _ in range(MAX_ITERATIONS):
        probabilities = 1 / (1 + np.exp(-np.clip(rows @ weights, -40.0, 40.0)))
        gradient = rows.T @ (probabilities - labels) + ridge * weights
        variance = probabilities * (1 - probabilities)
        hessian = (rows * variance[:, None]).T @ rows + np.diag(ridge + 1e-9)
        step = np.linalg.solve(hessian, gradient)
        step = step / max(1.0, float(np.abs(step).max()) / MAX_STEP)
        weights = weights - step
        if float(np.abs(step).max()) < TOLERANCE:
            break
    return weights


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


@cache
def load_out_of_fold_logits() -> dict[str, FloatArray]:
    """Return logits of shape (sentences,) by case digest."""
    logits_by_digest = {}
    for digest, case_logits in read_rows(OUT_OF_FOLD_FILE, 2):
        values = [float(logit) for logit in case_logits.split()]
        logits_by_digest[digest] = np.array(values)
    return logits_by_digest


def save_out_of_fold_logits(
    logits_by_digest: Mapping[str, FloatArray], file: Path
) -> None:
    """Write the file; a reader never sees half of it."""
    lines = [OUT_OF_FOLD_HEADER]
    for digest, case_logits in logits_by_digest.items():
        formatted = " ".join(f"{logit:.3f}" for logit in case_logits)
        lines.append(f"{digest}\t{formatted}\n")
    draft = file.with_suffix(".draft")
    draft.write_text("".join(lines), encoding="utf-8")
    draft.replace(file)


def save_model(model: FrozenModel, path: Path) -> None:
    """Write a model as JSON, numbers to six digits; a reader never sees half a file."""
    content = json.dumps(_round_numbers(model.model_dump()), separators=(",", ":"))
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private_text(path, f"{content}\n")


def _round_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _round_numbers(field) for key, field in value.items()}
    if isinstance(value, list | tuple):
        return [_round_numbers(element) for element in value]
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value
