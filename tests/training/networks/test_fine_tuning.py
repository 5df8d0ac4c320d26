"""Training of the network, and the stages that are trained on different cases."""

import copy
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from archqa.core.case import Case, case_digest
from archqa.engine.encoders import CrossEncoder
from archqa.engine.windows import build_windows
from tests.engine.conftest import make_case
from tests.training.labelled_cases import labelled
from training import corpora, cross_encoder, export, fine_tuning
from training.corpora import AuxiliaryCase, AuxiliaryCorpus
from training.fine_tuning import TrainingConfig
from training.regression import LabelledCase, LabelledSets, no_progress

from .small_networks import (
    CONFIG,
    EVIDENCE,
    IRRELEVANT,
    SMALL,
    anticoagulant_case,
    packed_logits,
    small_corpus,
)

pytestmark = pytest.mark.heavy
TYPED_SENTENCE = "# AKI: Cr 2.1 -> 4.4, +WBC casts"


def test_training_changes_the_head_and_not_the_frozen_layers(network: Any) -> None:
    before = copy.deepcopy(network.state_dict())
    config = TrainingConfig(epochs=2, batch_size=1, frozen_layers=1)
    trained = fine_tuning.train_network(
        copy.deepcopy(network), lambda: [labelled(50)], config, progress=no_progress
    )
    after = trained.state_dict()
    changed = {name for name in before if not before[name].equal(after[name])}
    assert {"likeness.weight", "seen.weight", "matters.weight"} <= changed
    assert "encoder.layers.1.narrow.weight" in changed
    for name in changed:
        assert "embeddings" not in name
        assert ".layers.0." not in name


def test_each_example_is_in_one_batch_with_examples_of_its_length() -> None:
    examples = []
    for sentences in (9, 1, 5, 1, 9, 5):
        case = anticoagulant_case(*[EVIDENCE] * sentences)
        for window in build_windows(case):
            examples.append(fine_tuning.WindowTargets(window, [0.0]))
    expected_lengths = sorted(len(example.window.token_ids) for example in examples)
    lengths = []
    for batch in fine_tuning.make_batches(list(examples), 2):
        batch_lengths = [len(example.window.token_ids) for example in batch]
        assert len(set(batch_lengths)) == 1
        lengths += batch_lengths
    assert sorted(lengths) == expected_lengths


def test_training_computes_with_quantised_weights_and_changes_the_unquantised(
    network: Any,
) -> None:
    case, key = labelled(50)
    trained = copy.deepcopy(network)
    fine_tuning.enable_fake_quantisation(trained)
    trained.eval()
    difference = fine_tuning.logits(trained, case) - packed_logits(network, case)
    assert np.abs(difference).max() < 1e-4
    fine_tuning.disable_fake_quantisation(trained)
    before = network.encoder.layers[1].wide.weight
    assert trained.encoder.layers[1].wide.weight.equal(before)
    config = CONFIG._replace(epochs=2)
    fine_tuning.train_quantisation_aware(
        trained, lambda: [(case, key)], config, progress=no_progress
    )
    after = trained.encoder.layers[1].wide.weight
    assert not after.equal(before)
    assert (
        after - before
    ).abs().max() < 0.01  # unquantised: a quantisation step is wider


def test_average_weights_lie_between_those_of_the_networks(
    network: Any, perturbed_network: Any
) -> None:
    average = fine_tuning.average_weights([network, perturbed_network])
    weight = network.state_dict()["seen.weight"]
    perturbed_weight = perturbed_network.state_dict()["seen.weight"]
    average_weight = average.state_dict()["seen.weight"]
    assert average_weight.allclose((weight + perturbed_weight) / 2)
    assert not average_weight.equal(weight)


def test_the_cross_encoder_is_built_from_the_corpus_and_exported(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained_networks: list[Any] = []
    train_network = fine_tuning.train_network

    def recording_train_network(*arguments: Any, **options: Any) -> Any:
        trained_networks.append(train_network(*arguments, **options))
        return trained_networks[-1]

    monkeypatch.setattr(fine_tuning, "train_network", recording_train_network)
    cross_encoder.build_cross_encoder(
        small_corpus(),
        {"train": [labelled(number) for number in range(50, 54)]},
        weights,
        CONFIG,
        no_progress,
        tmp_path,
        tmp_path / "out_of_fold.tsv",
        units_per_layer=256,
        **SMALL,
    )
    assert len(trained_networks) == 5 + 2 * cross_encoder.FOLDS
    stage_one, *fold_networks = trained_networks[4:]
    fold_mean = fine_tuning.average_weights(fold_networks)
    expected = fine_tuning.average_weights([stage_one, fold_mean, fold_mean, fold_mean])
    assert sum(len(layer.wide.weight) for layer in expected.encoder.layers) == 2 * 256
    case, _ = labelled(50)
    exported_logits = CrossEncoder(tmp_path / "reader.onnx").logits(case)
    expected_logits = packed_logits(expected, case)
    assert (
        np.abs(exported_logits - expected_logits).max() < 0.5
    )  # integers differ from floats
    assert np.corrcoef(exported_logits, expected_logits)[0, 1] > 0.98
    file_names = sorted(file.name for file in tmp_path.iterdir())
    assert file_names == ["out_of_fold.tsv", "reader.npz", "reader.onnx"]


def test_each_case_is_judged_by_a_network_trained_on_nothing_about_its_note(
    tmp_path: Path, network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set of notes stands for the network that was trained on them."""
    labelled_sets = {
        "train-real": [_numbered(number) for number in range(9)],
        "train": [_numbered(9), _numbered(10)],
    }
    note_of_digest = _notes_by_digest(labelled_sets)
    case_digests = set(note_of_digest)
    case_notes = sorted(note_of_digest.values())
    note_questions = []
    for number in range(9):
        question = AuxiliaryCase(f"train-real/{number}", *labelled(200 + number))
        note_questions.append(question)
        note_of_digest[case_digest(question.case)] = question.note
    judged_notes: list[str] = []

    def train(
        _: Any, sample_epoch: Any, config: TrainingConfig, progress: Any
    ) -> set[str]:
        return {note_of_digest[case_digest(case)] for case, _ in sample_epoch()}

    def average_weights(models: list[Any]) -> set[str]:
        return set().union(*(model for model in models if model is not network))

    def logits_of(training_notes: set[str], cases: list[Case], _: Path) -> Any:
        notes = [note_of_digest[case_digest(case)] for case in cases]
        judged_notes.extend(notes)
        assert training_notes.isdisjoint(notes)
        assert len(training_notes) >= len(case_notes) / 2
        return {
            case_digest(case): np.arange(len(case.sentences), dtype=float)
            for case in cases
        }

    monkeypatch.setattr(fine_tuning, "train_quantisation_aware", train)
    monkeypatch.setattr(cross_encoder, "logits_from_files", logits_of)
    monkeypatch.setattr(fine_tuning, "average_weights", average_weights)
    monkeypatch.setattr(export, "export_network", lambda *_: None)
    corpus = small_corpus()._replace(training_note_cases=tuple(note_questions))
    out_of_fold = tmp_path / "out_of_fold.tsv"
    cross_encoder.fine_tune_by_fold(
        network,
        corpus,
        labelled_sets,
        TrainingConfig(),
        no_progress,
        tmp_path,
        out_of_fold,
    )
    assert sorted(judged_notes) == case_notes
    lines = out_of_fold.read_text().splitlines()[1:]
    assert {line.split("\t")[0] for line in lines} == case_digests
    for line in lines:
        assert line.split("\t")[1].startswith("0.000 1.000 ")


def test_two_trainings_with_their_own_seeds_weigh_three_times_the_first_stage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage_one = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(stage_one.weight, 8.0)
    weight_of_seed = {5: 16.0, 6: 32.0}

    def train(model: Any, _: Any, config: TrainingConfig, progress: Any) -> Any:
        torch.nn.init.constant_(model.weight, weight_of_seed[config.seed])
        return model

    monkeypatch.setattr(fine_tuning, "train_quantisation_aware", train)
    mean = cross_encoder.fine_tune_fold(
        stage_one, lambda: [], TrainingConfig(seed=5), no_progress
    )
    assert mean.weight.item() == pytest.approx(0.25 * 8 + 0.75 * 24)
    assert stage_one.weight.item() == 8


def test_a_second_stage_epoch_has_cases_twice_and_a_sample_of_questions_about_their_notes() -> (
    None
):
    typed = _case_of("typed", TYPED_SENTENCE)
    dictated = _case_of("dictated", IRRELEVANT)
    _, key = labelled(50)
    note_questions = []
    for number in (60, 61, 62):
        note_questions.append(AuxiliaryCase("train/dictated", *labelled(number)))
    question_about_another_note = AuxiliaryCase("train/other", *labelled(63))
    epoch = cross_encoder.fine_tuning_epoch(
        {"train": [(typed, key), (dictated, key)]},
        [*note_questions, question_about_another_note],
        {"train/typed", "train/dictated"},
    )
    cases = [case for case, _ in epoch]
    assert cases.count(typed) == 2
    assert cases.count(dictated) == 2
    sampled = [case for case in cases if case not in (typed, dictated)]
    assert len(sampled) == cross_encoder.FINE_TUNING_QUESTIONS_PER_NOTE
    question_cases = [question.case for question in note_questions]
    for case in sampled:
        assert case in question_cases


def test_all_similar_cases_come_before_typed_ones_repeat_and_questions_come_last() -> (
    None
):
    _, key = labelled(50)
    typed_ids = ["typed 1", "typed 2"]
    dictated_ids = [f"dictated {number}" for number in range(8)]
    similar = [_case_of(case_id, TYPED_SENTENCE) for case_id in typed_ids]
    similar += [_case_of(case_id, IRRELEVANT) for case_id in dictated_ids]
    corpus = AuxiliaryCorpus(
        questions=(AuxiliaryCase("new/99", *labelled(99)),),
        similar=tuple(AuxiliaryCase(f"new/{case.id}", case, key) for case in similar),
    )
    passes = []
    for labelled_cases in cross_encoder.training_passes(corpus, random.Random(0)):
        passes.append([case.id for case, _ in labelled_cases])
    before_pruning, after_pruning, *repetitions = passes
    assert sorted(before_pruning + after_pruning) == sorted(typed_ids + dictated_ids)
    assert len(before_pruning) == round(
        cross_encoder.PRE_PRUNING_FRACTION * len(similar)
    )
    for case_ids in repetitions:
        assert set(typed_ids) <= set(case_ids)
    assert [len(case_ids) for case_ids in repetitions] == [2, 2, 5]
    assert repetitions[-1][0] == corpus.questions[0].case.id


def test_an_epoch_has_all_similar_cases_and_some_questions_on_each_note() -> None:
    corpus = corpora.read_auxiliary_corpus(corpora.DATA_DIR)
    epoch_ids = {case.id for case, _ in cross_encoder.training_epoch(corpus)}
    assert {similar.case.id for similar in corpus.similar} <= epoch_ids
    questions_per_note = Counter(
        question.note for question in corpus.questions if question.case.id in epoch_ids
    )
    notes = {question.note for question in corpus.questions}
    assert questions_per_note == dict.fromkeys(notes, cross_encoder.QUESTIONS_PER_NOTE)


def _notes_by_digest(labelled_sets: LabelledSets) -> dict[str, str]:
    note_of_digest = {}
    for set_name, labelled_cases in labelled_sets.items():
        for case, _ in labelled_cases:
            note_of_digest[case_digest(case)] = f"{set_name}/{case.id}"
    return note_of_digest


def _case_of(case_id: str, sentence: str) -> Case:
    return make_case((sentence,) * 4).model_copy(update={"id": case_id})


def _numbered(number: int) -> LabelledCase:
    case, key = labelled(number)
    return case.model_copy(update={"id": str(number)}), key
