"""Fitting the engine from cases and their keys: a regression over features, and what selection needs.

numpy alone. Settings and features were chosen by cross-fit over cases (README.md).
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.evidence import linear
from archqa.evidence.digest import case_digest
from archqa.evidence.features import Table, table
from archqa.evidence.heldout import heldout
from archqa.evidence.model import Model
from archqa.evidence.reader import Reader, default_reader, shipped_sha256

Labelled = tuple[Case, CaseKey]
Kinds = dict[str, list[Labelled]]
"""Labelled cases by the name of their file."""
Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many are done, and of how many."""
Binary = NDArray[np.float64]

MASS = 10.0
"""Sentences of an average corpus that selection counts in."""
FOLDS = 8


class Example(NamedTuple):
    """A case ready for fitting: its columns and, one a sentence, 1 where essential."""

    case: Case
    table: Table
    essential: Binary


def silent(what: str, done: int, of: int) -> None:
    """The progress callback that says nothing."""


def prepare(pairs: list[Labelled], progress: Progress = silent) -> list[Example]:
    """Features of every case with a sentence; a sentence that the key does not name counts as not essential.

    Of cases that the reader was trained on, the verdicts are those of readers that were not (`heldout`).
    """
    reader, examples = default_reader(), list[Example]()
    for done, (case, key) in enumerate(pairs):
        if case.sentences:
            essential = np.array([float(sid in key.essential) for sid in case.sentence_ids])
            examples.append(Example(case, table(case, _unseen(case, reader)), essential))
        progress("features", done + 1, len(pairs))
    return examples


def _unseen(case: Case, reader: Reader) -> Binary:
    kept = heldout().get(case_digest(case))
    return reader.logits(case) if kept is None else kept


def train(pairs: list[Labelled], *, further: Iterable[Case] = (), seed: int = 0, progress: Progress = silent) -> Model:
    """Fits a model on `pairs`. The same pairs and seed give the same model.

    `further` are the cases that the reader was trained on: the model only notes which.
    """
    examples = prepare(pairs, progress=progress)
    held_out = cross_fit(examples, seed=seed, progress=progress)
    fitted = fit(examples, expected_f1=expected_f1(np.concatenate(held_out)), seed=seed)
    return fitted.model_copy(update={"reader_further": tuple(case_digest(case) for case in further)})


def cross_fit(
    examples: list[Example], *, seed: int = 0, folds: int = FOLDS, progress: Progress = silent
) -> list[Binary]:
    """Probabilities of every case by a model that never saw it; folds are drawn over cases."""
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
    """The regression over all sentences of `examples`."""
    rows = np.concatenate([example.table.matrix(linear.COLUMNS) for example in examples])
    truth = np.concatenate([example.essential for example in examples])
    return Model(
        linear=linear.fit(rows, truth),
        expected_f1=expected_f1,
        mass=MASS,
        fitted_on=tuple(case_digest(example.case) for example in examples),
        seed=seed,
        reader_sha256=shipped_sha256(),
        made_by="archqa.evidence.training",
    )


def expected_f1(probabilities: Binary) -> float:
    """The greatest expected F1 over all sentences at once, if the probabilities are true."""
    ranked = np.sort(probabilities)[::-1]
    size = np.arange(1, len(ranked) + 1)
    return float((2 * np.cumsum(ranked) / (size + ranked.sum())).max())
