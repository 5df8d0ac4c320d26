"""The exported files: the integers of the graph, and loading them back as a network."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from archqa.core.case import case_digest
from archqa.engine.encoders import CROSS_ENCODER_FILE, CrossEncoder
from archqa.engine.windows import build_windows
from archqa.tasks import load_cases
from tests.training.labelled_cases import labelled
from training import cross_encoder, export, fine_tuning, loading, mpnet
from training.export import PerTokenScaledLinear, export_network
from training.fine_tuning import TrainingConfig
from training.network import LowRankLinear, add_low_rank_updates
from training.regression import no_progress

from .small_networks import (
    CONFIG,
    EVIDENCE,
    IRRELEVANT,
    anticoagulant_case,
    packed_logits,
    small_corpus,
)

pytestmark = pytest.mark.heavy
DEV = Path(__file__).parents[3] / "data" / "dev.json"


def test_out_of_fold_logits_are_those_of_the_exported_file(
    tmp_path: Path, network: Any
) -> None:
    case, _ = labelled(50)
    logits = cross_encoder.logits_from_files(network, [case], tmp_path)[
        case_digest(case)
    ]
    assert not list(tmp_path.iterdir())
    export_network(network, tmp_path / "reader.onnx", case)
    exported_logits = CrossEncoder(tmp_path / "reader.onnx").logits(case)
    assert logits.tolist() == exported_logits.tolist()


def test_a_per_token_scaled_layer_equals_the_plain_one_even_for_a_zero_vector() -> None:
    plain = torch.nn.Linear(8, 4)
    token_scale = torch.tensor([0.0, 1.0, 1000.0])
    hidden = torch.randn(1, 3, 8) * token_scale[None, :, None]
    scaled = PerTokenScaledLinear(plain)
    assert scaled(hidden).allclose(plain(hidden), rtol=1e-4, atol=1e-4)


def test_an_exported_graph_scales_everything_that_it_quantises(
    tmp_path: Path, network: Any
) -> None:
    nodes = _exported_nodes(network, tmp_path)
    producer = {}
    for node in nodes:
        for output in node.output:
            producer[output] = node
    quantised_inputs = []
    for node in nodes:
        if node.op_type in ("DynamicQuantizeLinear", "DynamicQuantizeMatMul"):
            quantised_inputs.append(producer[node.input[0]])
    assert len(quantised_inputs) >= 2 * 4  # queries, keys and values may share one
    assert {node.op_type for node in quantised_inputs} == {"Div"}
    assert {producer[node.input[1]].op_type for node in quantised_inputs} == {"Clip"}


def test_an_exported_graph_computes_attention_in_chunks_of_heads(
    tmp_path: Path, network: Any
) -> None:
    nodes = _exported_nodes(network, tmp_path)
    attention = [
        node for node in nodes if node.op_type == "Softmax" and "/layers." in node.name
    ]
    assert len(attention) == 2 * mpnet.HEADS / mpnet.HEADS_PER_CHUNK


def test_an_exported_graph_is_fused_already_and_computes_what_the_unfused_one_does(
    tmp_path: Path, perturbed_network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The products' names stay, and the attention biases of all positions are not written."""
    nodes = _exported_nodes(perturbed_network, tmp_path)
    assert {node.op_type for node in nodes}.isdisjoint({"MatMulInteger", "Constant"})
    names = {node.name for node in nodes}
    assert {"/encoder/layers.0/query/MatMul_quant", "/seen/MatMul"} <= names
    fused_file = tmp_path / "reader.onnx"
    monkeypatch.setattr(export, "_fuse_nodes", lambda _: None)
    case, _ = labelled(50)
    unfused_file = tmp_path / "unfused.onnx"
    export_network(perturbed_network, unfused_file, case)
    assert fused_file.stat().st_size < unfused_file.stat().st_size
    fused_logits = CrossEncoder(fused_file).logits(case)
    assert fused_logits.tolist() == CrossEncoder(unfused_file).logits(case).tolist()


def test_a_network_of_short_windows_is_exported_and_loaded_with_a_short_table(
    tmp_path: Path, perturbed_network: Any
) -> None:
    case, _ = labelled(50)
    expected = fine_tuning.logits(perturbed_network, case)
    (window,) = build_windows(case)
    perturbed_network.encoder.limit_length(len(window.token_ids))
    assert fine_tuning.logits(perturbed_network, case).tolist() == expected.tolist()
    file = tmp_path / "reader.onnx"
    export_network(perturbed_network, file, case)
    loaded = loading.load_network(TrainingConfig(), file).eval()
    assert loaded.encoder.max_length == len(window.token_ids)
    assert (
        np.abs(CrossEncoder(file).logits(case) - fine_tuning.logits(loaded, case)).max()
        < 0.2
    )


def _exported_nodes(network: Any, folder: Path) -> Any:
    case, _ = labelled(50)
    file = folder / "reader.onnx"
    export_network(network, file, case)
    return onnx.load(str(file), load_external_data=False).graph.node


def test_the_shipped_integers_are_close_to_their_floats() -> None:
    """The root mean square is .09 with all layers scaled per token, .51 with none.

    Measured in training/engine-log.md, twelfth round.
    """
    floats = loading.load_network(TrainingConfig(), CROSS_ENCODER_FILE).eval()
    differences = []
    for case in load_cases(DEV).notes[:3]:
        differences.append(
            CrossEncoder().logits(case) - fine_tuning.logits(floats, case)
        )
    assert np.sqrt(np.mean(np.concatenate(differences) ** 2)) < 0.2


def test_exported_files_load_as_the_network_they_were_exported_from(
    tmp_path: Path, perturbed_network: Any
) -> None:
    case, _ = labelled(50)
    file = tmp_path / "reader.onnx"
    export_network(perturbed_network, file, case)
    loaded = loading.load_network(TrainingConfig(frozen_layers=1), file).eval()
    frozen_parameters = list(loaded.encoder.layers[0].parameters())
    assert len(frozen_parameters) == 16
    assert not any(parameter.requires_grad for parameter in frozen_parameters)
    loaded_logits = fine_tuning.logits(loaded, case)
    # Embeddings are quantised a second time.
    assert np.abs(packed_logits(perturbed_network, case) - loaded_logits).max() < 0.2
    assert np.abs(CrossEncoder(file).logits(case) - loaded_logits).max() < 0.2
    loaded_state = loaded.state_dict()
    for name, weight in perturbed_network.state_dict().items():
        if name.startswith(("seen", "matters", "likeness")):
            assert weight.equal(loaded_state[name])


def test_an_exported_file_reads_beyond_the_position_table(
    tmp_path: Path, perturbed_network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_case = anticoagulant_case(*[EVIDENCE, IRRELEVANT] * 30)
    (window,) = build_windows(long_case)
    assert len(window.token_ids) > perturbed_network.encoder.embeddings.positions
    file = tmp_path / "reader.onnx"
    export_network(perturbed_network, file, anticoagulant_case(EVIDENCE, IRRELEVANT))
    loaded = loading.load_network(TrainingConfig(), file).eval()
    exported_logits = CrossEncoder(file).logits(long_case)
    repeating_logits = fine_tuning.logits(loaded, long_case)

    def clamped(position: Any, positions: int) -> Any:
        return position.clamp(max=positions - 1)

    monkeypatch.setattr(mpnet, "position_index", clamped)
    clamped_logits = fine_tuning.logits(loaded, long_case)
    quantisation_error = np.abs(exported_logits - repeating_logits).max()
    assert quantisation_error < np.abs(clamped_logits - repeating_logits).max() / 3


def test_the_shipped_cross_encoder_is_fine_tuned_into_new_files(
    tmp_path: Path, perturbed_network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head's weights are not quantised: a difference in them was learned."""
    before = copy.deepcopy(perturbed_network.state_dict())
    load_network = loading.load_network
    monkeypatch.setattr(loading, "load_network", lambda config: perturbed_network)
    cross_encoder.fine_tune_default(small_corpus(), CONFIG, no_progress, tmp_path)
    after = load_network(TrainingConfig(), tmp_path / "reader.onnx").state_dict()
    assert not after["seen.weight"].equal(before["seen.weight"])
    frozen_bias = "encoder.layers.0.query.bias"
    assert after[frozen_bias].equal(before[frozen_bias])


def test_a_network_trained_by_updates_is_exported_as_updates_of_the_other_file(
    tmp_path: Path, perturbed_network: Any
) -> None:
    case, _ = labelled(50)
    shared, own = tmp_path / "reader.onnx", tmp_path / "updated.onnx"
    export_network(perturbed_network, shared, case)
    network = loading.load_network(TrainingConfig(frozen_layers=1), shared).eval()
    before = fine_tuning.logits(network, case)
    add_low_rank_updates(network.encoder.layers, rank=2)
    assert fine_tuning.logits(network, case).tolist() == before.tolist()
    updates = [
        module for module in network.modules() if isinstance(module, LowRankLinear)
    ]
    assert len(updates) == 6, "the linear layers of the second of two layers"
    torch.manual_seed(1)
    for layer in updates:
        torch.nn.init.normal_(layer.up)
    expected = fine_tuning.logits(network, case)
    export_network(network, own, case, shared.with_suffix(".npz"))
    change = np.abs(expected - before).max()
    assert change > 0.5
    assert np.abs(CrossEncoder(own).logits(case) - expected).max() < change / 5
    with np.load(own.with_suffix(".npz")) as arrays:
        assert sum(name.endswith("/up") for name in arrays.files) == len(updates)
