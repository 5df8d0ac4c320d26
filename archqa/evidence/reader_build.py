"""Makes the reader's two files from labelled cases: `reader.onnx` and `reader_heldout.tsv`. Needs the training extra.

A reader first reads broadly, what is written about notes of its own; then closely, the cases and questions on their
notes. The trees must be fitted on verdicts about cases the reader had not seen; so the close reading is done once for
each fold, each of these readers judging the cases it was kept from. The mean of their weights, which has seen all
cases, is shipped. Whoever is kept from a case is kept from every further question on its note as well.
"""

import copy
import random
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archqa.evidence import heldout, reader, reader_training
from archqa.evidence.digest import case_digest
from archqa.evidence.further import Asked, Further
from archqa.evidence.note import DICTATED, telegraphic
from archqa.evidence.reader_training import Labelled, Recipe
from archqa.evidence.tables import FOLDER
from archqa.evidence.training import folds_of

FOLDS = 4
BROADLY, CLOSELY = 3, 2
"""Questions on one note that are read in an epoch."""
ALIKE = 2
"""Cases like the real ones that are read beside each of them."""

Kinds = Mapping[str, list[Labelled]]
"""Cases by the name of their file."""
Progress = Callable[[str, int, int], None]


class Lessons(NamedTuple):
    """What a reader is trained on: cases, questions on their notes, and what is about notes of its own."""

    cases: list[Labelled]
    questions: list[Asked]
    apart: Further


def build(kinds: Kinds, further: Further, recipe: Recipe, progress: Progress, into: Path = FOLDER) -> None:
    """Trains and writes both files. Each kind of case is spread evenly over the folds. Over an hour on two cores."""
    fold_of = folds(kinds, recipe.seed)
    apart = lessons(kinds, further, fold_of).apart
    broad = reader_training.untrained(recipe)
    reader_training.read(broad, partial(broadly, apart), recipe.broad, recipe, progress=progress)
    verdicts, readers = dict[str, NDArray[np.float64]](), list[Any]()
    for fold in range(FOLDS):
        draw = partial(closely, lessons(kinds, further, fold_of, without=fold))
        readers.append(reader_training.read(copy.deepcopy(broad), draw, recipe.epochs, recipe, progress=progress))
        judged = [case for name, kind in kinds.items() for case, _ in kind if fold_of[f"{name}/{case.id}"] == fold]
        verdicts |= {case_digest(case): reader_training.logits(readers[-1], case) for case in judged}
        progress("folds", fold + 1, FOLDS)
    heldout.write(verdicts, into / heldout.NAME)
    reader_training.export(reader_training.mean_of(readers), into / reader.SHIPPED.name, judged[0])


def folds(kinds: Kinds, seed: int) -> dict[str, int]:
    """The fold of each note, by the name further questions call it: `train/12`."""
    found: dict[str, int] = {}
    for name, kind in kinds.items():
        drawn = folds_of(len(kind), FOLDS, seed)
        found |= {f"{name}/{case.id}": int(fold) for (case, _), fold in zip(kind, drawn, strict=True)}
    return found


def lessons(kinds: Kinds, further: Further, fold_of: Mapping[str, int], without: int | None = None) -> Lessons:
    """What the reader that judges this fold is trained on."""
    cases = [pair for name, kind in kinds.items() for pair in kind if fold_of[f"{name}/{pair[0].id}"] != without]
    questions = [each for each in further.questions if fold_of.get(each.note, without) != without]
    apart = tuple(each for each in further.questions if each.note not in fold_of)
    return Lessons(cases, questions, Further(apart, further.alike))


def broadly(apart: Further) -> list[Labelled]:
    """One epoch of what is about notes of its own: all cases, and some questions on each of the other notes."""
    return _pairs([*some_of_each(apart.questions, BROADLY), *apart.alike])


def closely(known: Lessons) -> list[Labelled]:
    """One epoch of the cases, some questions on the dictated ones' notes, and some of the cases like them.

    No questions on typed notes: there the cases ask for the main problem, the questions for any.
    """
    dictated = [each for each in known.questions if telegraphic(each.case) < DICTATED]
    alike = random.sample(known.apart.alike, min(ALIKE * len(known.cases), len(known.apart.alike)))
    return [*known.cases, *_pairs(some_of_each(dictated, CLOSELY)), *_pairs(alike)]


def some_of_each(asked: Iterable[Asked], most: int) -> list[Asked]:
    """At most so many questions on each note, drawn at random."""
    on: dict[str, list[Asked]] = {}
    for each in asked:
        on.setdefault(each.note, []).append(each)
    return [each for some in on.values() for each in random.sample(some, min(most, len(some)))]


def _pairs(asked: Iterable[Asked]) -> list[Labelled]:
    return [(each.case, each.key) for each in asked]
