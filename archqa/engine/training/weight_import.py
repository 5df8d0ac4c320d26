"""Load the cross-encoder's files as a network, to fine-tune it without its pretrained weights.

The weights are those the files stand for, after quantisation. Needs the training extra.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

from archqa.engine import onnx_sessions, weight_packing
from archqa.engine.training.mpnet import EXACT_DISTANCE_BUCKETS, POSITION_OFFSET, VOCAB_OFFSET
from archqa.engine.training.network import CrossEncoderNetwork

MATRIX_PRODUCT = re.compile(r"/(?P<module>.+)/MatMul(_quant)?")
"""The node of a linear layer is named after its module; its weight is not."""
TOKEN_TABLE = "encoder.embeddings.pieces.weight"
POSITION_TABLE = "encoder.embeddings.places"
STATE_SUFFIXES = (".weight", ".bias", ".by_distance")
MODULE_OF_PRETRAINED = {
    "attention.attn.q": "query",
    "attention.attn.k": "key",
    "attention.attn.v": "value",
    "attention.attn.o": "out",
    "attention.LayerNorm": "attended",
    "intermediate.dense": "wide",
    "output.dense": "narrow",
    "output.LayerNorm": "norm",
}
"""The modules of a layer by their names in the pretrained weights."""

Arrays = dict[str, Any]


def load_network(graph_file: Path, frozen_layers: int) -> CrossEncoderNetwork:
    """Return the network that `export.export` wrote, whatever its widths."""
    state = _read_state(graph_file)
    layers = sum(name.endswith(".wide.weight") for name in state)
    network = CrossEncoderNetwork(_empty_weights(state, layers), frozen_layers, layers=layers)
    distances = state["encoder.by_distance"].shape[1]
    network.encoder.limit_length((distances + 1) // 2)
    network.load_state_dict(state)
    return network


def _read_state(graph_file: Path) -> dict[str, Tensor]:
    packed = {}
    weights_file = graph_file.with_suffix(".npz")
    for name, weights in onnx_sessions.read_packed_weights(weights_file):
        packed[name] = weight_packing.dequantise(weights)
    graph = onnx.load(str(graph_file), load_external_data=False).graph
    plain = {}
    for tensor in graph.initializer:
        if not tensor.external_data:
            plain[tensor.name] = numpy_helper.to_array(tensor)
    positions = plain[f"{POSITION_TABLE}.table"] * plain[f"{POSITION_TABLE}.scale"]
    state = {
        TOKEN_TABLE: torch.from_numpy(packed[onnx_sessions.EMBEDDING_TABLE]),
        f"{POSITION_TABLE}.weight": torch.from_numpy(positions),
    }
    for name, array in plain.items():
        if name.endswith(STATE_SUFFIXES):
            state[name] = torch.from_numpy(array.copy())
    state.update(_linear_weights(graph, packed, plain))
    return state


def _linear_weights(graph: Any, packed: Arrays, plain: Arrays) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of linear layers by module; plain ones are transposed in the graph."""
    weights = dict(packed)
    for name, array in plain.items():
        if name.startswith("onnx::"):
            weights[name] = array.T
    for node in graph.node:
        product = MATRIX_PRODUCT.fullmatch(node.name)
        if product and node.input[1] in weights:
            module = product["module"].replace("/", ".")
            weight = np.array(weights[node.input[1]], order="C")
            yield f"{module}.weight", torch.from_numpy(weight)


def _empty_weights(state: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Return pretrained weights of the right shapes, all zero."""
    tokens, size = state[TOKEN_TABLE].shape
    positions = len(state[f"{POSITION_TABLE}.weight"])
    heads = len(state["encoder.by_distance"])
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (tokens + VOCAB_OFFSET + 1, size),
        "embeddings.position_embeddings.weight": (positions + POSITION_OFFSET, size),
        "encoder.relative_attention_bias.weight": (4 * EXACT_DISTANCE_BUCKETS, heads),
        "embeddings.LayerNorm.weight": (size,),
        "embeddings.LayerNorm.bias": (size,),
    }
    for index in range(layers):
        for pretrained_name, module in MODULE_OF_PRETRAINED.items():
            for part in ("weight", "bias"):
                shape = state[f"encoder.layers.{index}.{module}.{part}"].shape
                shapes[f"encoder.layer.{index}.{pretrained_name}.{part}"] = tuple(shape)
    return {name: torch.zeros(shape) for name, shape in shapes.items()}
