"""Makes the reader, `data/reader.onnx` and `data/reader.npz`. Needs the training extra.

It first reads broadly, questions about notes that were written for it; then closely, the cases with a key and further
questions about their notes. The regression must be fitted on verdicts about cases that the reader has not read: so the
close reading is done apart for each fold, and what comes of it judges the cases it was kept from
(`out_of_fold.py`). It is
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
from archqa.core.case_digest import case_digest
from archqa.core.key import CaseKey
from archqa.engine import cross_encoder
from archqa.engine.evaluation_statistics import assign_folds
from archqa.engine.tables import FOLDER
from archqa.engine.training import fine_tuning, out_of_fold
from archqa.engine.training.auxiliary_corpus import AuxiliaryCase, AuxiliaryCorpus
from archqa.engine.training.fine_tuning import EpochSampler, LabelledCase, TrainingConfig
from archqa.engine.training.regression import LabelledSets
from archqa.notes.sections import MIN_TYPED_SHORTHAND, shorthand_ratio

QUESTIONS_PER_NOTE = 1
"""Questions on any matter of one note that are read in an epoch; more of them would outweigh the cases alike."""
WIDTH = 1152
"""Units that stay of the 3,072 in a layer's wide map, on average: a multiple of `packing.WIDE`."""
LOOKED_AT = 110
"""Cases by which it is told which units matter."""
PRE_PRUNING_FRACTION = 0.57
"""The share of the cases that is read before the network is narrowed."""
FEW, AS_MANY = 0.25, 1.0
"""Dictated cases that are read beside all typed ones, for each of these."""
FINE_TUNING_RECIPE = TrainingConfig(epochs=3, rate=3e-5)
"""For the cases themselves, which are few."""
FOLDS = 4
READINGS = 2
"""Close readings of one fold, each with draws of its own."""
CLOSE_TO_BROAD = 3
"""What the close readings together weigh, where the broad reader weighs one."""
TWICE, FINE_TUNING_QUESTIONS_PER_NOTE = 2, 2
"""How often cases are read in an epoch of close reading, and of how many questions about their notes."""

Progress = Callable[[str, int, int], None]


def build_cross_encoder(
    taught: AuxiliaryCorpus,
    kinds: LabelledSets,
    weights: Path,
    recipe: TrainingConfig,
    progress: Progress,
    into: Path = FOLDER,
    *,
    width: int = WIDTH,
    **sizes: int,
) -> None:
    """Trains from a folder's starting weights, narrows, trains rounded, then `closely`, and writes the files."""
    model = fine_tuning.new_network(weights, recipe, **sizes)
    first, *others = _passes(taught, random.Random(recipe.seed))
    fine_tuning.train_network(model, lambda: first, recipe, progress=progress)
    _narrow(model, first, width, progress)
    for cases in others:
        fine_tuning.train_quantisation_aware(model, partial(list, cases), recipe, progress=progress)
    fine_tune_by_fold(
        model, taught, kinds, FINE_TUNING_RECIPE._replace(seed=recipe.seed), progress, into
    )


def fine_tune_default(
    taught: AuxiliaryCorpus, recipe: TrainingConfig, progress: Progress, into: Path = FOLDER
) -> None:
    """Teaches the shipped reader further and writes its files; what was held out from it stays as it is."""
    model = fine_tuning.load_default_network(recipe)
    trained = fine_tuning.train_quantisation_aware(
        model, partial(training_epoch, taught), recipe, progress=progress
    )
    fine_tuning.export(trained, into / cross_encoder.CROSS_ENCODER_FILE.name, taught.alike[0].case)


def fine_tune_by_fold(
    model: Any,
    taught: AuxiliaryCorpus,
    kinds: LabelledSets,
    recipe: TrainingConfig,
    progress: Progress,
    into: Path = FOLDER,
) -> None:
    """Teaches `model` the cases with a key, once for each fold; writes the held-out verdicts and the readers' mean."""
    fold_of = assign_note_folds(kinds, recipe.seed)
    readers, verdicts = list[Any](), dict[str, NDArray[np.float64]]()
    for fold in range(FOLDS):
        draw = partial(
            fine_tuning_epoch,
            kinds,
            taught.training_note_cases,
            {note for note, its in fold_of.items() if its != fold},
        )
        readers.append(_read_closely(model, draw, recipe, progress))
        apart = [case for name, case, _ in _named(kinds) if fold_of[name] == fold]
        verdicts |= _as_shipped(readers[-1], apart, into)
        progress("folds", fold + 1, FOLDS)
    out_of_fold.save_out_of_fold_logits(verdicts, into / out_of_fold.OUT_OF_FOLD_FILE)
    fine_tuning.export(
        fine_tuning.average_weights(readers),
        into / cross_encoder.CROSS_ENCODER_FILE.name,
        taught.alike[0].case,
    )


def _read_closely(
    model: Any, draw: EpochSampler, recipe: TrainingConfig, progress: Progress
) -> Any:
    recipes = [recipe._replace(seed=recipe.seed + at) for at in range(READINGS)]
    close = [
        fine_tuning.train_quantisation_aware(copy.deepcopy(model), draw, one, progress=progress)
        for one in recipes
    ]
    return fine_tuning.average_weights(
        [model, *[fine_tuning.average_weights(close)] * CLOSE_TO_BROAD]
    )


def _as_shipped(model: Any, cases: list[Case], into: Path) -> dict[str, NDArray[np.float64]]:
    """Log-odds by case digest, read from files: what they round beside the weights costs real notes a point of F1."""
    if not cases:
        return {}
    with TemporaryDirectory(dir=into) as folder:
        graph = Path(folder) / cross_encoder.CROSS_ENCODER_FILE.name
        fine_tuning.export(model, graph, cases[0])
        shipped = cross_encoder.CrossEncoder(graph)
        return {case_digest(case): shipped.logits(case) for case in cases}


def assign_note_folds(kinds: LabelledSets, seed: int) -> dict[str, int]:
    """The fold of each note, by the name that further questions call it (`train/12`); kinds are spread evenly."""
    drawn = {name: assign_folds(len(pairs), FOLDS, seed) for name, pairs in kinds.items()}
    return {
        f"{name}/{case.id}": int(fold)
        for name, pairs in kinds.items()
        for (case, _), fold in zip(pairs, drawn[name], strict=True)
    }


def fine_tuning_epoch(
    kinds: LabelledSets, near: Iterable[AuxiliaryCase], notes: set[str]
) -> list[LabelledCase]:
    """The cases on `notes`, each twice, and some of the questions about these notes."""
    cases = [(case, key) for name, case, key in _named(kinds) if name in notes]
    asked = _some_of_each(
        (each for each in near if each.note in notes), FINE_TUNING_QUESTIONS_PER_NOTE
    )
    return [*cases * TWICE, *_pairs(asked)]


def _named(kinds: LabelledSets) -> Iterator[tuple[str, Case, CaseKey]]:
    return (
        (f"{name}/{case.id}", case, key) for name, pairs in kinds.items() for case, key in pairs
    )


def _passes(taught: AuxiliaryCorpus, chance: random.Random) -> list[list[LabelledCase]]:
    """What is read before narrowing, the rest, and then, with the questions last, typed notes, which are few."""
    alike = chance.sample(_pairs(taught.alike), len(taught.alike))
    before = round(PRE_PRUNING_FRACTION * len(alike))
    typed = [(case, key) for case, key in alike if shorthand_ratio(case) >= MIN_TYPED_SHORTHAND]
    dictated = [(case, key) for case, key in alike if shorthand_ratio(case) < MIN_TYPED_SHORTHAND]

    def mixed(share: float) -> list[LabelledCase]:
        return typed + chance.sample(dictated, min(round(share * len(typed)), len(dictated)))

    return [
        alike[:before],
        alike[before:],
        mixed(FEW),
        mixed(FEW),
        _pairs(taught.questions) + mixed(AS_MANY),
    ]


def _narrow(model: Any, read: list[LabelledCase], width: int, progress: Progress) -> None:
    from archqa.engine.training.pruning import prune_units  # torch

    some = read[:LOOKED_AT]
    progress("units looked at, cases", 0, len(some))
    prune_units(model, fine_tuning.window_losses(model, some), width)
    progress("units looked at, cases", len(some), len(some))


def training_epoch(taught: AuxiliaryCorpus) -> list[LabelledCase]:
    """All cases alike, and some questions on each of the other notes."""
    return _pairs([*_some_of_each(taught.questions, QUESTIONS_PER_NOTE), *taught.alike])


def _some_of_each(asked: Iterable[AuxiliaryCase], most: int) -> list[AuxiliaryCase]:
    on: dict[str, list[AuxiliaryCase]] = {}
    for each in asked:
        on.setdefault(each.note, []).append(each)
    return [each for some in on.values() for each in random.sample(some, min(most, len(some)))]


def _pairs(asked: Iterable[AuxiliaryCase]) -> list[LabelledCase]:
    return [(each.case, each.key) for each in asked]
