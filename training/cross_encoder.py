"""The stages of training that make the cross-encoder: `reader.onnx` and `reader.npz` of the engine.

The first stage trains on the auxiliary corpus; the network is pruned and trained
quantisation-aware on the way. The second stage fine-tunes on the cases with a key and questions
about their notes. The regression must be fitted on logits of cases that the cross-encoder was not
trained on: so the second stage runs once for each fold of notes, and each fold is judged by the
network that was trained without it. Nothing that is asked about an excluded note
is used.

In each fold two trainings with seeds of their own are averaged, which is better than either
(Wortsman et al. 2022, arXiv:2203.05482), and interpolated a quarter of the way back to the first
stage, which forgets less (Wortsman et al. 2022, arXiv:2109.01903). The mean of the folds' weights,
which has been trained on everything, is shipped.
"""

import copy
import random
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from archqa.core.case import Case, case_digest
from archqa.core.key import CaseKey
from archqa.engine.encoders import CROSS_ENCODER_FILE, CrossEncoder
from archqa.notes.sections import MIN_TYPED_SHORTHAND, shorthand_ratio
from training import export, fine_tuning, loading
from training.corpora import AuxiliaryCase, AuxiliaryCorpus
from training.fine_tuning import EpochSampler, TrainingConfig
from training.network import CrossEncoderNetwork
from training.pruning import prune_units
from training.regression import (
    FloatArray,
    LabelledCase,
    LabelledSets,
    ProgressCallback,
    assign_folds,
    save_out_of_fold_logits,
)

QUESTIONS_PER_NOTE = 1
"""General questions about a note in an epoch; more would outweigh the similar cases."""
UNITS_PER_LAYER = 1152
"""Units left of the 3,072 of a feed-forward layer, on average: a multiple of a packed block."""
PRUNING_CASES = 110
"""Cases on which the importance of units is measured."""
PRE_PRUNING_FRACTION = 0.57
"""The share of the similar cases that the network is trained on before it is pruned."""
LOW_DICTATED_RATIO, HIGH_DICTATED_RATIO = 0.25, 1.0
"""Dictated cases in a pass for each typed case, all of which are used."""
FINE_TUNING_CONFIG = TrainingConfig(epochs=3, learning_rate=3e-5)
"""For the training cases themselves, which are few."""
FOLDS = 4
TRAININGS_PER_FOLD = 2
FINE_TUNED_WEIGHT = 3
"""The weight of the fine-tuned network in the interpolation, where the first stage weighs one."""
CASE_REPETITIONS = 2
"""How often a training case is used in an epoch of the second stage."""
FINE_TUNING_QUESTIONS_PER_NOTE = 2
"""Questions about a training case's note in an epoch of the second stage."""

GRAPH_NAME = CROSS_ENCODER_FILE.name


class NamedCase(NamedTuple):
    """A training case and the name of its note, as `train-real/12`."""

    note: str
    case: Case
    key: CaseKey


def build_cross_encoder(
    corpus: AuxiliaryCorpus,
    labelled_sets: LabelledSets,
    weights: Path,
    config: TrainingConfig,
    progress: ProgressCallback,
    output_dir: Path,
    out_of_fold_file: Path,
    *,
    units_per_layer: int = UNITS_PER_LAYER,
    **sizes: int,
) -> None:
    """Train a new cross-encoder from a folder of pretrained weights and write its files."""
    model = loading.new_network(weights, config, **sizes)
    before_pruning, *after_pruning = training_passes(corpus, random.Random(config.seed))
    fine_tuning.train_network(model, lambda: before_pruning, config, progress=progress)
    pruning_cases = before_pruning[:PRUNING_CASES]
    progress("pruning, cases", 0, len(pruning_cases))
    prune_units(model, fine_tuning.window_losses(model, pruning_cases), units_per_layer)
    progress("pruning, cases", len(pruning_cases), len(pruning_cases))
    for cases in after_pruning:
        sample_epoch: EpochSampler = partial(list, cases)
        fine_tuning.train_quantisation_aware(
            model, sample_epoch, config, progress=progress
        )
    fine_tuning_config = FINE_TUNING_CONFIG._replace(seed=config.seed)
    fine_tune_by_fold(
        model,
        corpus,
        labelled_sets,
        fine_tuning_config,
        progress,
        output_dir,
        out_of_fold_file,
    )


def fine_tune_default(
    corpus: AuxiliaryCorpus,
    config: TrainingConfig,
    progress: ProgressCallback,
    output_dir: Path,
) -> None:
    """Fine-tune the shipped cross-encoder and write its files; out-of-fold logits stay."""
    model = loading.load_network(config)
    sample_epoch = partial(training_epoch, corpus)
    trained = fine_tuning.train_quantisation_aware(
        model, sample_epoch, config, progress=progress
    )
    export.export_network(trained, output_dir / GRAPH_NAME, corpus.similar[0].case)


def fine_tune_by_fold(
    model: CrossEncoderNetwork,
    corpus: AuxiliaryCorpus,
    labelled_sets: LabelledSets,
    config: TrainingConfig,
    progress: ProgressCallback,
    output_dir: Path,
    out_of_fold_file: Path,
) -> None:
    """Fine-tune on the training cases without each fold; write out-of-fold logits and the mean."""
    fold_of_note = assign_note_folds(labelled_sets, config.seed)
    networks: list[CrossEncoderNetwork] = []
    logits_by_digest: dict[str, FloatArray] = {}
    for fold in range(FOLDS):
        training_notes = set()
        excluded = []
        for named in _named_cases(labelled_sets):
            if fold_of_note[named.note] == fold:
                excluded.append(named.case)
            else:
                training_notes.add(named.note)
        sample_epoch = partial(
            fine_tuning_epoch,
            labelled_sets,
            corpus.training_note_cases,
            training_notes,
        )
        network = fine_tune_fold(model, sample_epoch, config, progress)
        networks.append(network)
        logits_by_digest |= logits_from_files(network, excluded, output_dir)
        progress("folds", fold + 1, FOLDS)
    save_out_of_fold_logits(logits_by_digest, out_of_fold_file)
    average = fine_tuning.average_weights(networks)
    export.export_network(average, output_dir / GRAPH_NAME, corpus.similar[0].case)


def fine_tune_fold(
    model: CrossEncoderNetwork,
    sample_epoch: EpochSampler,
    config: TrainingConfig,
    progress: ProgressCallback,
) -> CrossEncoderNetwork:
    """Return the mean of several trainings from `model`, interpolated with `model`."""
    fine_tuned = []
    for training in range(TRAININGS_PER_FOLD):
        training_config = config._replace(seed=config.seed + training)
        network = fine_tuning.train_quantisation_aware(
            copy.deepcopy(model),
            sample_epoch,
            training_config,
            progress=progress,
        )
        fine_tuned.append(network)
    average = fine_tuning.average_weights(fine_tuned)
    return fine_tuning.average_weights([model, *[average] * FINE_TUNED_WEIGHT])


def logits_from_files(
    model: CrossEncoderNetwork,
    cases: list[Case],
    output_dir: Path,
) -> dict[str, FloatArray]:
    """Return logits by case digest, computed from exported files.

    What the files quantise besides the weights costs real notes a point of F1, so logits of the
    torch module would be optimistic.
    """
    if not cases:
        return {}
    with TemporaryDirectory(dir=output_dir) as folder:
        graph_file = Path(folder) / GRAPH_NAME
        export.export_network(model, graph_file, cases[0])
        exported = CrossEncoder(graph_file)
        return {case_digest(case): exported.logits(case) for case in cases}


def assign_note_folds(labelled_sets: LabelledSets, seed: int) -> dict[str, int]:
    """Return the fold of each note by its name (`train/12`); each set is spread evenly."""
    fold_of_note = {}
    for set_name, labelled_cases in labelled_sets.items():
        folds = assign_folds(len(labelled_cases), FOLDS, seed).tolist()
        for (case, _), fold in zip(labelled_cases, folds, strict=True):
            fold_of_note[f"{set_name}/{case.id}"] = fold
    return fold_of_note


def fine_tuning_epoch(
    labelled_sets: LabelledSets,
    note_questions: Iterable[AuxiliaryCase],
    notes: set[str],
) -> list[LabelledCase]:
    """Return the cases on `notes`, repeated, and a sample of the questions about these notes."""
    cases = []
    for named in _named_cases(labelled_sets):
        if named.note in notes:
            cases.append((named.case, named.key))
    questions = [question for question in note_questions if question.note in notes]
    sampled = _sample_per_note(questions, FINE_TUNING_QUESTIONS_PER_NOTE)
    return [*cases * CASE_REPETITIONS, *_labelled_cases(sampled)]


def _named_cases(labelled_sets: LabelledSets) -> Iterator[NamedCase]:
    for set_name, labelled_cases in labelled_sets.items():
        for case, key in labelled_cases:
            yield NamedCase(f"{set_name}/{case.id}", case, key)


def training_passes(
    corpus: AuxiliaryCorpus, rng: random.Random
) -> list[list[LabelledCase]]:
    """Return the passes of the first stage.

    All similar cases come once, some before pruning; then the typed ones, which are few, are
    repeated three times, the last time with the general questions.
    """
    similar = rng.sample(_labelled_cases(corpus.similar), len(corpus.similar))
    split = round(PRE_PRUNING_FRACTION * len(similar))
    typed: list[LabelledCase] = []
    dictated: list[LabelledCase] = []
    for case, key in similar:
        is_typed = shorthand_ratio(case) >= MIN_TYPED_SHORTHAND
        style = typed if is_typed else dictated
        style.append((case, key))

    def typed_and_some_dictated(ratio: float) -> list[LabelledCase]:
        sample_size = min(round(ratio * len(typed)), len(dictated))
        return typed + rng.sample(dictated, sample_size)

    return [
        similar[:split],
        similar[split:],
        typed_and_some_dictated(LOW_DICTATED_RATIO),
        typed_and_some_dictated(LOW_DICTATED_RATIO),
        _labelled_cases(corpus.questions)
        + typed_and_some_dictated(HIGH_DICTATED_RATIO),
    ]


def training_epoch(corpus: AuxiliaryCorpus) -> list[LabelledCase]:
    """Return all similar cases and a sample of the general questions about each note."""
    sampled = _sample_per_note(corpus.questions, QUESTIONS_PER_NOTE)
    return _labelled_cases([*sampled, *corpus.similar])


def _sample_per_note(
    questions: Iterable[AuxiliaryCase], max_questions: int
) -> list[AuxiliaryCase]:
    by_note: dict[str, list[AuxiliaryCase]] = {}
    for question in questions:
        by_note.setdefault(question.note, []).append(question)
    sampled: list[AuxiliaryCase] = []
    for note_questions in by_note.values():
        sampled += random.sample(
            note_questions, min(max_questions, len(note_questions))
        )
    return sampled


def _labelled_cases(auxiliary_cases: Iterable[AuxiliaryCase]) -> list[LabelledCase]:
    return [(labelled.case, labelled.key) for labelled in auxiliary_cases]
