"""Makes the reader's two files from labelled cases: `reader.onnx` and `reader_heldout.tsv`. Needs the training extra.

The trees must be fitted on verdicts about cases the reader had not seen; so as many readers are trained as there are
folds, each judging the cases it was kept from, and one more on all cases, which is shipped. Whoever is kept from a case
is kept from every further question on its note as well.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archqa.evidence import heldout, reader, reader_training
from archqa.evidence.digest import case_digest
from archqa.evidence.further import Further
from archqa.evidence.reader_training import Labelled, Recipe
from archqa.evidence.tables import FOLDER
from archqa.evidence.training import folds_of

FOLDS = 4
TIMES = 2
"""A case is read so often for each time that a further question is: its labels are those that count."""

Kinds = Mapping[str, list[Labelled]]
"""Cases by the name of their file."""
Progress = Callable[[str, int, int], None]


def build(kinds: Kinds, further: Sequence[Further], recipe: Recipe, progress: Progress, into: Path = FOLDER) -> None:
    """Trains and writes both files. Each kind of case is spread evenly over the folds. About two hours on two cores."""
    heldout.write(unseen(kinds, further, recipe, progress), into / heldout.NAME)
    pairs = _pairs([pair for kind in kinds.values() for pair in kind], further)
    model = reader_training.train_reader(pairs, recipe, progress=progress)
    reader_training.export(model, into / reader.SHIPPED.name, pairs[0][0])


def unseen(
    kinds: Kinds, further: Sequence[Further], recipe: Recipe, progress: Progress
) -> dict[str, NDArray[np.float64]]:
    """Log-odds of every case by digest, each by a reader that was kept from it and from its note."""
    verdicts: dict[str, NDArray[np.float64]] = {}
    fold_of = folds(kinds, recipe.seed)
    for fold in range(FOLDS):
        own = recipe._replace(seed=recipe.seed + fold)
        model = reader_training.train_reader(seen(kinds, further, fold_of, fold), own, progress=progress)
        kept = [case for name, kind in kinds.items() for case, _ in kind if fold_of[f"{name}/{case.id}"] == fold]
        verdicts |= {case_digest(case): reader_training.logits(model, case) for case in kept}
        progress("folds", fold + 1, FOLDS)
    return verdicts


def folds(kinds: Kinds, seed: int) -> dict[str, int]:
    """The fold of each note, by the name further questions call it: `train/12`."""
    drawn = {name: folds_of(len(kind), FOLDS, seed) for name, kind in kinds.items()}
    return {
        f"{name}/{case.id}": int(drawn[name][at]) for name, kind in kinds.items() for at, (case, _) in enumerate(kind)
    }


def seen(kinds: Kinds, further: Sequence[Further], fold_of: Mapping[str, int], fold: int) -> list[Labelled]:
    """What the reader that judges this fold is trained on."""
    own = [pair for name, kind in kinds.items() for pair in kind if fold_of[f"{name}/{pair[0].id}"] != fold]
    return _pairs(own, [each for each in further if fold_of.get(each.note) != fold])


def _pairs(own: list[Labelled], further: Sequence[Further]) -> list[Labelled]:
    return own * TIMES + [(each.case, each.key) for each in further]
