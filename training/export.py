"""Export of the trained cross-encoder: `reader.onnx`, the graph, and `reader.npz`, packed weights.

Integers keep to seven of int8's eight bits (`packing.py`): with eight, processors without
VNNI overflow where they add products in pairs, and give other results (onnxruntime's documentation
on quantization). The inputs of products are scaled token by token, as in ZeroQuant (Yao et al.
2022, arXiv:2206.01861, section 4.1).
"""

import copy
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn
from torch.nn.functional import linear

from archqa.core.case import Case
from archqa.engine.encoders import network_inputs
from archqa.engine.networks import (
    EMBEDDING_SCALE,
    EMBEDDING_TABLE,
    QUANTISED_SUFFIX,
    REFERENCE,
    REFERENCE_MARK,
    SCALE_SUFFIX,
    SLOW_OPTIMIZERS,
    Floats,
    PackedWeights,
    UpdatedWeights,
    unpack_weights,
)
from archqa.engine.windows import MARKER, UNK, build_windows, tokenizer
from training.network import CrossEncoderNetwork, LowRankLinear
from training.packing import (
    EMBEDDING_MAX_CODE,
    LAYER_BLOCK_SIZE,
    LAYER_MAX_CODE,
    dequantise,
    pack_update,
    pack_weights,
    read_packed_weights,
)

DYNAMIC_AXES = {
    "pieces": {1: "length"},
    "kinds": {1: "length"},
    "marks": {1: "count"},
    "mean": {1: "count", 2: "length"},
}
OPSET = 17
LATIN = range(0x250)
GREEK = range(0x370, 0x400)
PUNCTUATION_AND_SYMBOLS = range(0x2000, 0x2300)
MIN_TOKEN_MAXIMUM = 1e-6
"""Avoids a division by zero for a token whose vector is zero."""


class Lookup(nn.Module):
    """Embeddings as int8, with a scale for each row."""

    def __init__(self, table: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.table: Tensor
        self.scale: Tensor
        self.register_buffer("table", table)
        self.register_buffer("scale", scale[:, None])

    def forward(self, rows: Tensor) -> Tensor:
        """Return the rows as floats."""
        return self.table[rows].float() * self.scale[rows]


class PerTokenScaledLinear(nn.Module):
    """A linear layer whose input is scaled to the same maximum for every token.

    onnxruntime quantises the input of a whole window by one step: without the scaling, the few
    tokens with large values would leave few levels to the rest.
    """

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = plain.weight, plain.bias
        self.low_rank = plain if isinstance(plain, LowRankLinear) else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the output of the plain linear layer."""
        maximum = hidden.abs().amax(-1, keepdim=True).clamp(min=MIN_TOKEN_MAXIMUM)
        return linear(hidden / maximum, self.weight) * maximum + self.bias


def export_network(
    model: CrossEncoderNetwork,
    graph_file: Path,
    example: Case,
    shared_weights: Path | None = None,
) -> None:
    """Write the graph and its weights (.npz); a reader never sees half a file.

    The graph is traced with the first window of `example`. Weights that are also in the file
    `shared_weights`, in the same folder, are read from there; of layers that were trained on from
    these, the update of low rank is written.
    """
    network = copy.deepcopy(model).eval()
    network.single_window = True
    shared = _SharedWeights.read(shared_weights)
    packed_layers = {}
    for layer in _scale_per_token(network):
        packed = _pack_layer(layer, shared)
        packed_layers[_content_key(layer.weight)] = packed
    packed_table = _replace_embeddings(network)
    draft = graph_file.with_suffix(".draft.onnx")
    inputs = {}
    for name, array in network_inputs(build_windows(example)[0]).items():
        inputs[name] = torch.from_numpy(array)
    packed_by_name = _write_quantised_graph(network, inputs, packed_layers, draft)
    _fuse_nodes(draft)
    _save_files(onnx.load(str(draft)), packed_by_name, packed_table, shared, graph_file)
    draft.unlink()


class _SharedWeights(NamedTuple):
    """The packed weights of another file, by the content they stand for."""

    file_name: str
    by_content: dict[bytes, tuple[str, PackedWeights]]

    @classmethod
    def read(cls, file: Path | None) -> "_SharedWeights":
        """Read the weights of a file; there are none without a file."""
        by_content = {}
        if file is not None:
            for name, packed in read_packed_weights(file):
                assert isinstance(packed, PackedWeights)
                content = dequantise(packed).tobytes()
                by_content[content] = (name, packed)
        return cls(file.name if file else "", by_content)

    def find(self, weight: Floats) -> PackedWeights | None:
        """Return the packed form of a weight that the file has."""
        named = self.by_content.get(np.ascontiguousarray(weight).tobytes())
        return named[1] if named else None

    def reference(self, packed: PackedWeights) -> str:
        """Return `file#name` of a weight that the file has, else an empty text."""
        named = self.by_content.get(dequantise(packed).tobytes())
        return f"{self.file_name}{REFERENCE_MARK}{named[0]}" if named else ""


def _scale_per_token(network: CrossEncoderNetwork) -> list[PerTokenScaledLinear]:
    """Replace the encoder's linear layers and return the new ones."""
    replaced = []
    for encoder_layer in network.encoder.layers:
        for name, module in list(encoder_layer.named_children()):
            if isinstance(module, nn.Linear):
                scaled = PerTokenScaledLinear(module)
                encoder_layer.add_module(name, scaled)
                replaced.append(scaled)
    return replaced


def _pack_layer(
    layer: PerTokenScaledLinear, shared: _SharedWeights
) -> PackedWeights | UpdatedWeights:
    """Pack a layer's weight, and set it to what the packed form represents."""
    weight = layer.weight.detach().numpy()
    packed: PackedWeights | UpdatedWeights | None = shared.find(weight)
    if packed is None:
        packed = pack_weights(weight, LAYER_BLOCK_SIZE, LAYER_MAX_CODE)
    if layer.low_rank is not None:
        assert isinstance(packed, PackedWeights)
        up, down = (
            layer.low_rank.up.detach().numpy(),
            layer.low_rank.down.detach().numpy(),
        )
        packed = pack_update(packed, up, down)
    layer.weight.data = torch.from_numpy(dequantise(packed))
    layer.low_rank = None
    return packed


def _content_key(weight: Tensor) -> bytes:
    """Return the weight's bytes in the graph, which renames it and holds it transposed."""
    return np.ascontiguousarray(weight.detach().numpy().T).tobytes()


def _replace_embeddings(network: CrossEncoderNetwork) -> PackedWeights:
    """Replace the embeddings by integer tables and return the packed token table."""
    embeddings = network.encoder.embeddings
    token_table = _without_other_scripts(embeddings.pieces.weight.numpy())
    packed = pack_weights(token_table, max_code=EMBEDDING_MAX_CODE)
    unpacked = torch.from_numpy(unpack_weights(packed))
    embeddings.add_module("pieces", Lookup(unpacked, torch.from_numpy(packed.scale)))
    embeddings.add_module("places", _eight_bit_lookup(embeddings.places.weight))
    return packed


def _eight_bit_lookup(weight: Tensor) -> Lookup:
    scale = weight.abs().amax(1) / 127
    return Lookup(torch.round(weight / scale[:, None]).to(torch.int8), scale)


def _without_other_scripts(table: Any) -> Any:
    """Set tokens of other scripts, and unused ones, to [UNK]: equal rows compress to nothing."""
    reduced = table.copy()
    for token, token_id in tokenizer().get_vocab().items():
        is_unused = token.startswith("[unused") and token_id != MARKER
        if is_unused or _has_other_script(token):
            reduced[token_id] = table[UNK]
    return reduced


def _has_other_script(token: str) -> bool:
    for character in token:
        code_point = ord(character)
        is_supported = (
            code_point in LATIN
            or code_point in GREEK
            or code_point in PUNCTUATION_AND_SYMBOLS
        )
        if not is_supported:
            return True
    return False


def _write_quantised_graph(
    network: CrossEncoderNetwork,
    inputs: Mapping[str, Tensor],
    packed_layers: Mapping[bytes, PackedWeights | UpdatedWeights],
    output_file: Path,
) -> dict[str, PackedWeights | UpdatedWeights]:
    """Write the graph with integer products; return the packed weights by their names in it."""
    float_file = output_file.with_suffix(".whole.onnx")
    _export_float_graph(network, inputs, float_file)
    graph = onnx.load(str(float_file)).graph
    packed_by_name = {}
    for tensor in graph.initializer:
        content = numpy_helper.to_array(tensor).tobytes()
        if content in packed_layers:
            packed_by_name[tensor.name] = packed_layers[content]
    quantize_dynamic(
        str(float_file),
        str(output_file),
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
        op_types_to_quantize=["MatMul"],
        nodes_to_exclude=_products_of_other_weights(graph, packed_by_name),
    )
    float_file.unlink()
    return packed_by_name


def _fuse_nodes(graph_file: Path) -> None:
    """Let onnxruntime fuse nodes now: it takes four times as long to load the graph otherwise.

    Only fusions that every processor has; names of weights and of products stay. Constants are
    folded when the graph is loaded: the attention biases are megabytes, their table is not.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(graph_file)
    ort.InferenceSession(
        graph_file.read_bytes(),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=[*SLOW_OPTIMIZERS, "ConstantFolding"],
    )


def _export_float_graph(
    network: CrossEncoderNetwork,
    inputs: Mapping[str, Tensor],
    output_file: Path,
) -> None:
    with warnings.catch_warnings():
        # The exporter is deprecated, and warns of shapes that are constant for every window.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            tuple(inputs.values()),
            str(output_file),
            input_names=list(inputs),
            output_names=["logits"],
            dynamic_axes=DYNAMIC_AXES,
            opset_version=OPSET,
            dynamo=False,
        )


def _products_of_other_weights(
    graph: Any, packed_by_name: Mapping[str, Any]
) -> list[str]:
    return [
        node.name
        for node in graph.node
        if node.op_type == "MatMul" and node.input[1] not in packed_by_name
    ]


def _save_files(
    model: Any,
    packed_by_name: Mapping[str, PackedWeights | UpdatedWeights],
    packed_table: PackedWeights,
    shared: _SharedWeights,
    graph_file: Path,
) -> None:
    """Move the packed weights and their scales out of the graph, and write both files."""
    weights_file = graph_file.with_suffix(".npz")
    weights: dict[str, PackedWeights | UpdatedWeights] = {EMBEDDING_TABLE: packed_table}
    for name, packed in packed_by_name.items():
        weights[f"{name}{QUANTISED_SUFFIX}"] = packed
    scales = {f"{name}{SCALE_SUFFIX}" for name in packed_by_name} | {EMBEDDING_SCALE}
    for tensor in model.graph.initializer:
        if tensor.name in scales | weights.keys():
            _move_to_file(tensor, weights_file.name)
    _save_packed(weights, shared, weights_file)
    draft = graph_file.with_suffix(".written.onnx")
    draft.write_bytes(model.SerializeToString())
    draft.replace(graph_file)


def _save_packed(
    packed_by_name: Mapping[str, PackedWeights | UpdatedWeights],
    shared: _SharedWeights,
    path: Path,
) -> None:
    arrays: dict[str, Any] = {}
    for name, packed in packed_by_name.items():
        for field, array in _arrays_of(packed, shared).items():
            arrays[f"{name}/{field}"] = array
    draft = path.with_suffix(".draft.npz")
    np.savez_compressed(draft, **arrays)
    draft.replace(path)


def _arrays_of(
    packed: PackedWeights | UpdatedWeights, shared: _SharedWeights
) -> dict[str, Any]:
    """Return what is written of a weight: itself, or where it stands and the update of it."""
    if isinstance(packed, UpdatedWeights):
        reference = shared.reference(packed.base)
        return {REFERENCE: np.array(reference), **packed.update._asdict()}
    if reference := shared.reference(packed):
        return {REFERENCE: np.array(reference)}
    return packed._asdict()


def _move_to_file(tensor: Any, file_name: str) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=file_name)
