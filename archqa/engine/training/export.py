"""The trained reader as two files: `reader.onnx`, what is computed, and `reader.npz`, its large weights packed.

Needs the training extra. Integers keep to seven of int8's eight bits (`weight_packing.py`): with eight, processors
without
VNNI overflow where they add products in pairs, and say something else than the others (onnxruntime, quantization).
What they multiply is rounded piece by piece, as in ZeroQuant (Yao et al. 2022, arXiv:2206.01861, section 4.1).
"""

import copy
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import Tensor, nn
from torch.nn.functional import linear

from archqa.engine import weight_packing
from archqa.engine.onnx_sessions import EMBEDDING_TABLE
from archqa.engine.training.network import CrossEncoderNetwork
from archqa.engine.weight_packing import PackedWeights
from archqa.engine.windows import MARK, UNK
from archqa.engine.wordpiece import tokenizer

NAMES = ["pieces", "kinds", "marks", "mean"]
AXES = {
    "pieces": {1: "length"},
    "kinds": {1: "length"},
    "marks": {1: "count"},
    "mean": {1: "count", 2: "length"},
}
LATIN = 0x250
GREEK = range(0x370, 0x400)
SIGNS = range(0x2000, 0x2300)
LOWEST = 1e-6
"""A piece of which nothing is left is not divided by nothing."""


class Lookup(nn.Module):
    """Embeddings as int8, with a scale for each row."""

    def __init__(self, table: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.table: Tensor
        self.scale: Tensor
        self.register_buffer("table", table)
        self.register_buffer("scale", scale[:, None])

    def forward(self, rows: Tensor) -> Tensor:
        """The rows as floats."""
        return self.table[rows].float() * self.scale[rows]


class PerTokenScaledLinear(nn.Module):
    """A linear map whose input is brought to one height, piece by piece, before it is rounded to integers.

    onnxruntime rounds a whole window by one step: the few pieces that stand out would leave little to the others.
    """

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = plain.weight, plain.bias

    def forward(self, hidden: Tensor) -> Tensor:
        """What the linear map says."""
        height = hidden.abs().amax(-1, keepdim=True).clamp(min=LOWEST)
        return linear(hidden / height, self.weight) * height + self.bias


def export(model: CrossEncoderNetwork, graph: Path, example: Mapping[str, Tensor]) -> None:
    """Writes `graph` and, beside it, its weights (.npz), each in one move. `example` is what one window gives."""
    plain = copy.deepcopy(model).eval()
    plain.alone = True
    layers = {
        _content(each.weight): packed for each in _levelled(plain) for packed in [_pack(each)]
    }
    rows = plain.encoder.embeddings
    table = weight_packing.pack_weights(
        _common(rows.pieces.weight.numpy()), most=weight_packing.EMBEDDING_MAX_CODE
    )
    rows.add_module(
        "pieces",
        Lookup(
            torch.from_numpy(weight_packing.unpack_weights(table)), torch.from_numpy(table.scale)
        ),
    )
    rows.add_module("places", _eight_bits(rows.places.weight))
    draft = graph.with_suffix(".draft.onnx")
    named = _quantized(plain, example, layers, draft)
    _save(onnx.load(str(draft)), named, table, graph)
    draft.unlink()


def _eight_bits(weight: Tensor) -> Lookup:
    scale = weight.abs().amax(1) / 127
    return Lookup(torch.round(weight / scale[:, None]).to(torch.int8), scale)


def _levelled(model: CrossEncoderNetwork) -> Iterator[PerTokenScaledLinear]:
    """Each linear map of the layers, from now on a levelled one."""
    for layer in model.encoder.layers:
        for name, each in list(layer.named_children()):
            if isinstance(each, nn.Linear):
                made = PerTokenScaledLinear(each)
                layer.add_module(name, made)
                yield made


def _pack(layer: PerTokenScaledLinear) -> PackedWeights:
    """Packs a layer's weight, which becomes what the packed one stands for."""
    packed = weight_packing.pack_weights(
        layer.weight.detach().numpy(),
        weight_packing.LAYER_BLOCK_SIZE,
        weight_packing.LAYER_MAX_CODE,
    )
    layer.weight.data = torch.from_numpy(weight_packing.dequantise(packed))
    return packed


def _content(weight: Tensor) -> bytes:
    """By this a weight is known again in the graph, which names it otherwise and holds it transposed."""
    return np.ascontiguousarray(weight.detach().numpy().T).tobytes()


def _common(table: Any) -> Any:
    """Pieces of other scripts, and unused ones, read as unknown: equal rows take no room in a file."""
    kept = table.copy()
    for text, at in tokenizer().get_vocab().items():
        foreign = any(
            ord(sign) >= LATIN and ord(sign) not in GREEK and ord(sign) not in SIGNS
            for sign in text
        )
        if foreign or (text.startswith("[unused") and at != MARK):
            kept[at] = table[UNK]
    return kept


def _quantized(
    plain: CrossEncoderNetwork,
    example: Mapping[str, Tensor],
    layers: Mapping[bytes, PackedWeights],
    into: Path,
) -> dict[str, PackedWeights]:
    """Writes the graph with integer products, and says by which name it knows each packed weight."""
    whole = into.with_suffix(".whole.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # of the exporter's own age, and of shapes that hold for every window
        torch.onnx.export(plain, tuple(example[name] for name in NAMES), str(whole), input_names=NAMES,
                          output_names=["logits"], dynamic_axes=AXES, opset_version=17, dynamo=False)  # fmt: skip
    graph = onnx.load(str(whole)).graph
    named = {
        each.name: layers[content]
        for each in graph.initializer
        if (content := numpy_helper.to_array(each).tobytes()) in layers
    }
    others = [
        node.name for node in graph.node if node.op_type == "MatMul" and node.input[1] not in named
    ]
    quantize_dynamic(str(whole), str(into), weight_type=QuantType.QInt8, per_channel=True, reduce_range=True,
                     op_types_to_quantize=["MatMul"], nodes_to_exclude=others)  # fmt: skip
    whole.unlink()
    return named


def _save(
    model: Any, named: Mapping[str, PackedWeights], table: PackedWeights, graph: Path
) -> None:
    """Takes the large integers out of the graph and writes both files; the scales stay, and become the packed ones."""
    scales = {f"{name}_scale": packed.scale for name, packed in named.items()}
    large = {
        EMBEDDING_TABLE: table,
        **{f"{name}_quantized": packed for name, packed in named.items()},
    }
    for each in model.graph.initializer:
        if each.name in scales:
            each.CopyFrom(numpy_helper.from_array(scales[each.name], each.name))
        if each.name in large:
            _outside(each, graph.with_suffix(".npz").name)
    arrays = {
        f"{name}/{part}": value
        for name, packed in large.items()
        for part, value in packed._asdict().items()
    }
    draft = graph.with_suffix(".draft.npz")
    np.savez_compressed(draft, **arrays)
    draft.replace(graph.with_suffix(".npz"))
    written = graph.with_suffix(".written.onnx")
    written.write_bytes(model.SerializeToString())
    written.replace(graph)


def _outside(tensor: Any, file: str) -> None:
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=file)
