"""Makes the reader, `data/reader.onnx` and `data/reader.npz`. Needs the training extra.

It is trained on questions about notes that were written for it and on nothing else. So every case with a key is new to
it: the regression is fitted on what it says of them, and no fold of them has to be kept from it.
"""

import random
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from archqa.evidence import reader, reader_training
from archqa.evidence.further import Asked, Further
from archqa.evidence.reader_training import Labelled, Recipe
from archqa.evidence.tables import FOLDER

OF_EACH = 1
"""Questions on any matter of one note that are read in an epoch; more of them would outweigh the cases alike."""

Progress = Callable[[str, int, int], None]


def build(
    taught: Further, weights: Path, recipe: Recipe, progress: Progress, into: Path = FOLDER, **sizes: int
) -> None:
    """Trains on what is taught, from a folder's starting weights, and writes the files."""
    untrained = reader_training.untrained(weights, recipe, **sizes)
    trained = reader_training.read(untrained, partial(epoch, taught), recipe, progress=progress)
    reader_training.export(trained, into / reader.SHIPPED.name, taught.alike[0].case)


def epoch(taught: Further) -> list[Labelled]:
    """All cases alike, and some questions on each of the other notes."""
    return [(each.case, each.key) for each in [*_some_of_each(taught.questions), *taught.alike]]


def _some_of_each(asked: Iterable[Asked]) -> list[Asked]:
    on: dict[str, list[Asked]] = {}
    for each in asked:
        on.setdefault(each.note, []).append(each)
    return [each for some in on.values() for each in random.sample(some, min(OF_EACH, len(some)))]
