"""Makes the reader's two files from labelled cases: `reader.onnx` and `reader_heldout.tsv`. Needs the training extra.

The trees must be fitted on verdicts about cases the reader had not seen; so as many readers are trained as there are
folds, each judging the cases it was kept from, and one more on all cases, which is shipped. Whoever is kept from a case
is kept from every further question on its note as well.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archqa.evidence import heldout, reader, reader_training
from archqa.evidence.digest import case_digest
from archqa.evidence.further import Asked, Further
from archqa.evidence.reader_training import Labelled, Lessons, Recipe
from archqa.evidence.tables import FOLDER
from archqa.evidence.training import folds_of

FOLDS = 4

Kinds = Mapping[str, list[Labelled]]
"""Cases by the name of their file."""
Progress = Callable[[str, int, int], None]


def build(kinds: Kinds, further: Further, recipe: Recipe, progress: Progress, into: Path = FOLDER) -> None:
    """Trains and writes both files. Each kind of case is spread evenly over the folds. About two hours on two cores.

    The reader that is shipped begins where the mean of the folds' readers stood after reading broadly.
    """
    verdicts: dict[str, NDArray[np.float64]] = {}
    broad, fold_of = [], folds(kinds, recipe.seed)
    for fold in range(FOLDS):
        own, known = recipe._replace(seed=recipe.seed + fold), lessons(kinds, further, fold_of, without=fold)
        broad.append(reader_training.read_broadly(known, own, progress=progress))
        model = reader_training.settle(copy.deepcopy(broad[-1]), known, own, progress=progress)
        judged = [case for name, kind in kinds.items() for case, _ in kind if fold_of[f"{name}/{case.id}"] == fold]
        verdicts |= {case_digest(case): reader_training.logits(model, case) for case in judged}
        progress("folds", fold + 1, FOLDS)
    every = lessons(kinds, further, fold_of)
    model = reader_training.settle(reader_training.mean_of(broad), every, recipe, progress=progress)
    heldout.write(verdicts, into / heldout.NAME)
    reader_training.export(model, into / reader.SHIPPED.name, every.cases[0][0])


def folds(kinds: Kinds, seed: int) -> dict[str, int]:
    """The fold of each note, by the name further questions call it: `train/12`."""
    found: dict[str, int] = {}
    for name, kind in kinds.items():
        drawn = folds_of(len(kind), FOLDS, seed)
        found |= {f"{name}/{case.id}": int(fold) for (case, _), fold in zip(kind, drawn, strict=True)}
    return found


def lessons(kinds: Kinds, further: Further, fold_of: Mapping[str, int], without: int | None = None) -> Lessons:
    """What the reader that judges this fold is trained on; all there is for the one that is shipped."""
    cases = [pair for name, kind in kinds.items() for pair in kind if fold_of[f"{name}/{pair[0].id}"] != without]
    kept = [each for each in further.questions if fold_of.get(each.note, -1) != without]
    return Lessons(cases, _pairs(further.alike), _pairs(kept))


def _pairs(asked: Iterable[Asked]) -> list[Labelled]:
    return [(each.case, each.key) for each in asked]
