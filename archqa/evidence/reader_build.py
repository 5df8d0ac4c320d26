"""Makes the reader, `data/reader.onnx` and `data/reader.npz`. Needs the training extra.

It is trained on questions about notes that were written for it and on nothing else. So every case with a key is new to
it: the regression is fitted on what it says of them, and no fold of them has to be kept from it.
"""

import random
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from archqa.evidence import reader, reader_training
from archqa.evidence.further import Asked, Further
from archqa.evidence.reader_training import Labelled, Recipe
from archqa.evidence.tables import FOLDER

OF_EACH = 1
"""Questions on any matter of one note that are read in an epoch; more of them would outweigh the cases alike."""
WIDTH = 2048
"""Units that stay of the 3,072 in a layer's wide map: a multiple of `packing.WIDE`."""
LOOKED_AT = 180
"""Cases by which it is told which units matter."""
AFTER = Recipe(epochs=1, rate=7e-5)
"""For a reader that has been trained: once more over all, at a lower rate."""

Progress = Callable[[str, int, int], None]


def build(
    taught: Further,
    weights: Path,
    recipe: Recipe,
    progress: Progress,
    into: Path = FOLDER,
    *,
    width: int = WIDTH,
    **sizes: int,
) -> None:
    """Trains from a folder's starting weights, narrows, trains `AFTER` that, and writes the files."""
    model = reader_training.untrained(weights, recipe, **sizes)
    reader_training.read(model, partial(epoch, taught), recipe, progress=progress)
    _narrow(model, taught, width, progress)
    _taught_on(model, taught, AFTER._replace(seed=recipe.seed), progress, into)


def continue_shipped(taught: Further, recipe: Recipe, progress: Progress, into: Path = FOLDER) -> None:
    """Teaches the shipped reader further and writes the files."""
    _taught_on(reader_training.shipped(recipe), taught, recipe, progress, into)


def _taught_on(model: Any, taught: Further, recipe: Recipe, progress: Progress, into: Path) -> None:
    trained = reader_training.read(model, partial(epoch, taught), recipe, progress=progress)
    reader_training.export(trained, into / reader.SHIPPED.name, taught.alike[0].case)


def _narrow(model: Any, taught: Further, width: int, progress: Progress) -> None:
    from archqa.evidence.narrowing import narrow  # torch

    some = epoch(taught)
    some = random.sample(some, min(LOOKED_AT, len(some)))
    progress("units looked at, cases", 0, len(some))
    narrow(model, reader_training.losses(model, some), width)
    progress("units looked at, cases", len(some), len(some))


def epoch(taught: Further) -> list[Labelled]:
    """All cases alike, and some questions on each of the other notes."""
    return [(each.case, each.key) for each in [*_some_of_each(taught.questions), *taught.alike]]


def _some_of_each(asked: Iterable[Asked]) -> list[Asked]:
    on: dict[str, list[Asked]] = {}
    for each in asked:
        on.setdefault(each.note, []).append(each)
    return [each for some in on.values() for each in random.sample(some, min(OF_EACH, len(some)))]
