"""Makes the reader's two files from labelled cases: `reader.onnx` and `reader_heldout.tsv`. Needs the training extra.

The logistic model must be fitted on verdicts about cases the reader had not seen; so as many readers are trained as
there are folds, each judging the cases it was kept from, and one more on all cases, which is shipped.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archqa.evidence import heldout, reader, reader_training
from archqa.evidence.digest import case_digest
from archqa.evidence.reader_training import Labelled, Recipe
from archqa.evidence.tables import FOLDER
from archqa.evidence.training import folds_of

FOLDS = 4
Progress = Callable[[str, int, int], None]


def build(kinds: list[list[Labelled]], recipe: Recipe, progress: Progress, start: Path | None = None) -> None:
    """Trains and writes both files. Each kind of case is spread evenly over the folds. About an hour on one core."""
    heldout.write(unseen(kinds, recipe, progress, start), FOLDER / heldout.NAME)
    pairs = [pair for kind in kinds for pair in kind]
    model = reader_training.train_reader(pairs, recipe, start=start, progress=progress)
    reader_training.export(model, reader.SHIPPED, pairs[0][0])


def unseen(
    kinds: list[list[Labelled]], recipe: Recipe, progress: Progress, start: Path | None = None
) -> dict[str, NDArray[np.float64]]:
    """Log-odds of every case by digest, each by a reader that was kept from it."""
    folds = [folds_of(len(kind), FOLDS, recipe.seed) for kind in kinds]
    verdicts: dict[str, NDArray[np.float64]] = {}
    placed = [(pair, at) for kind, fold in zip(kinds, folds, strict=True) for pair, at in zip(kind, fold, strict=True)]
    for each in range(FOLDS):
        seen = [pair for pair, at in placed if at != each]
        kept = [pair for pair, at in placed if at == each]
        model = reader_training.train_reader(
            seen, recipe._replace(seed=recipe.seed + each), start=start, progress=progress
        )
        verdicts |= {case_digest(case): reader_training.logits(model, case) for case, _ in kept}
        progress("folds", each + 1, FOLDS)
    return verdicts
