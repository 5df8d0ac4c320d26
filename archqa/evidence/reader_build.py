"""Makes the reader, `data/reader.onnx` and `data/reader.npz`. Needs the training extra.

It first reads broadly, questions about notes that were written for it; then closely, the cases with a key and further
questions about their notes. The regression must be fitted on verdicts about cases that the reader has not read: so the
close reading is done apart for each fold, and what comes of it judges the cases it was kept from (`heldout.py`). It is
done twice with other draws, whose mean is better than either (Wortsman et al. 2022, arXiv:2203.05482), and taken a
quarter of the way back to the broad reader, which forgets less (the same, arXiv:2109.01903). The mean of the folds'
weights, which has read all, is shipped. Whoever is kept from a case is kept from all that is asked about its note.
"""

import copy
import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.evidence import heldout, reader, reader_training
from archqa.evidence.digest import case_digest
from archqa.evidence.further import Asked, Further
from archqa.evidence.note import DICTATED, telegraphic
from archqa.evidence.reader_training import Draw, Labelled, Recipe
from archqa.evidence.tables import FOLDER
from archqa.evidence.training import Kinds, folds_of

OF_EACH = 1
"""Questions on any matter of one note that are read in an epoch; more of them would outweigh the cases alike."""
WIDTH = 1152
"""Units that stay of the 3,072 in a layer's wide map, on average: a multiple of `packing.WIDE`."""
LOOKED_AT = 110
"""Cases by which it is told which units matter."""
BEFORE = 0.57
"""The share of the cases that is read before the network is narrowed."""
FEW, AS_MANY = 0.25, 1.0
"""Dictated cases that are read beside all typed ones, for each of these."""
CLOSELY = Recipe(epochs=3, rate=3e-5)
"""For the cases themselves, which are few."""
FOLDS = 4
READINGS = 2
"""Close readings of one fold, each with draws of its own."""
CLOSE_TO_BROAD = 3
"""What the close readings together weigh, where the broad reader weighs one."""
TWICE, NEAR = 2, 2
"""How often cases are read in an epoch of close reading, and of how many questions about their notes."""

Progress = Callable[[str, int, int], None]


def build(
    taught: Further,
    kinds: Kinds,
    weights: Path,
    recipe: Recipe,
    progress: Progress,
    into: Path = FOLDER,
    *,
    width: int = WIDTH,
    **sizes: int,
) -> None:
    """Trains from a folder's starting weights, narrows, trains rounded, then `closely`, and writes the files."""
    model = reader_training.untrained(weights, recipe, **sizes)
    first, *others = _passes(taught, random.Random(recipe.seed))
    reader_training.read(model, lambda: first, recipe, progress=progress)
    _narrow(model, first, width, progress)
    for cases in others:
        reader_training.read_rounded(model, partial(list, cases), recipe, progress=progress)
    closely(model, taught, kinds, CLOSELY._replace(seed=recipe.seed), progress, into)


def continue_shipped(taught: Further, recipe: Recipe, progress: Progress, into: Path = FOLDER) -> None:
    """Teaches the shipped reader further and writes its files; what was held out from it stays as it is."""
    model = reader_training.shipped(recipe)
    trained = reader_training.read_rounded(model, partial(epoch, taught), recipe, progress=progress)
    reader_training.export(trained, into / reader.SHIPPED.name, taught.alike[0].case)


def closely(model: Any, taught: Further, kinds: Kinds, recipe: Recipe, progress: Progress, into: Path = FOLDER) -> None:
    """Teaches `model` the cases with a key, once for each fold; writes the held-out verdicts and the readers' mean."""
    fold_of = folds(kinds, recipe.seed)
    readers, verdicts = list[Any](), dict[str, NDArray[np.float64]]()
    for fold in range(FOLDS):
        draw = partial(close_epoch, kinds, taught.near, {note for note, its in fold_of.items() if its != fold})
        readers.append(_read_closely(model, draw, recipe, progress))
        apart = [case for name, case, _ in _named(kinds) if fold_of[name] == fold]
        verdicts |= _as_shipped(readers[-1], apart, into)
        progress("folds", fold + 1, FOLDS)
    heldout.write(verdicts, into / heldout.NAME)
    reader_training.export(reader_training.mean_of(readers), into / reader.SHIPPED.name, taught.alike[0].case)


def _read_closely(model: Any, draw: Draw, recipe: Recipe, progress: Progress) -> Any:
    recipes = [recipe._replace(seed=recipe.seed + at) for at in range(READINGS)]
    close = [reader_training.read_rounded(copy.deepcopy(model), draw, one, progress=progress) for one in recipes]
    return reader_training.mean_of([model, *[reader_training.mean_of(close)] * CLOSE_TO_BROAD])


def _as_shipped(model: Any, cases: list[Case], into: Path) -> dict[str, NDArray[np.float64]]:
    """Log-odds by case digest, read from files: what they round beside the weights costs real notes a point of F1."""
    if not cases:
        return {}
    with TemporaryDirectory(dir=into) as folder:
        graph = Path(folder) / reader.SHIPPED.name
        reader_training.export(model, graph, cases[0])
        shipped = reader.Reader(graph)
        return {case_digest(case): shipped.logits(case) for case in cases}


def folds(kinds: Kinds, seed: int) -> dict[str, int]:
    """The fold of each note, by the name that further questions call it (`train/12`); kinds are spread evenly."""
    drawn = {name: folds_of(len(pairs), FOLDS, seed) for name, pairs in kinds.items()}
    return {
        f"{name}/{case.id}": int(fold)
        for name, pairs in kinds.items()
        for (case, _), fold in zip(pairs, drawn[name], strict=True)
    }


def close_epoch(kinds: Kinds, near: Iterable[Asked], notes: set[str]) -> list[Labelled]:
    """The cases on `notes`, each twice, and some of the questions about these notes."""
    cases = [(case, key) for name, case, key in _named(kinds) if name in notes]
    asked = _some_of_each((each for each in near if each.note in notes), NEAR)
    return [*cases * TWICE, *_pairs(asked)]


def _named(kinds: Kinds) -> Iterator[tuple[str, Case, CaseKey]]:
    return ((f"{name}/{case.id}", case, key) for name, pairs in kinds.items() for case, key in pairs)


def _passes(taught: Further, chance: random.Random) -> list[list[Labelled]]:
    """What is read before narrowing, the rest, and then, with the questions last, typed notes, which are few."""
    alike = chance.sample(_pairs(taught.alike), len(taught.alike))
    before = round(BEFORE * len(alike))
    typed = [(case, key) for case, key in alike if telegraphic(case) >= DICTATED]
    dictated = [(case, key) for case, key in alike if telegraphic(case) < DICTATED]

    def mixed(share: float) -> list[Labelled]:
        return typed + chance.sample(dictated, min(round(share * len(typed)), len(dictated)))

    return [alike[:before], alike[before:], mixed(FEW), mixed(FEW), _pairs(taught.questions) + mixed(AS_MANY)]


def _narrow(model: Any, read: list[Labelled], width: int, progress: Progress) -> None:
    from archqa.evidence.narrowing import narrow  # torch

    some = read[:LOOKED_AT]
    progress("units looked at, cases", 0, len(some))
    narrow(model, reader_training.losses(model, some), width)
    progress("units looked at, cases", len(some), len(some))


def epoch(taught: Further) -> list[Labelled]:
    """All cases alike, and some questions on each of the other notes."""
    return _pairs([*_some_of_each(taught.questions, OF_EACH), *taught.alike])


def _some_of_each(asked: Iterable[Asked], most: int) -> list[Asked]:
    on: dict[str, list[Asked]] = {}
    for each in asked:
        on.setdefault(each.note, []).append(each)
    return [each for some in on.values() for each in random.sample(some, min(most, len(some)))]


def _pairs(asked: Iterable[Asked]) -> list[Labelled]:
    return [(each.case, each.key) for each in asked]
