"""The reader's files as a network again, so that it can be taught further without its starting weights.

Needs the training extra. What comes back is what the files stand for: the weights after their rounding to four bits.
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

PRODUCT = re.compile(r"/(?P<module>.+)/MatMul(_quant)?")
"""The node of a linear map is named after its module, its weight is not."""
PLACES = "encoder.embeddings.places"
LAYER = {
    "attention.attn.q": "query",
    "attention.attn.k": "key",
    "attention.attn.v": "value",
    "attention.attn.o": "out",
    "attention.LayerNorm": "attended",
    "intermediate.dense": "wide",
    "output.dense": "narrow",
    "output.LayerNorm": "norm",
}
"""A layer's parts by their name in starting weights, and in the network."""


def load_network(graph: Path, still: int) -> CrossEncoderNetwork:
    """The network that `reader_export.export` wrote to `graph` and the file beside it, of whatever width."""
    state = dict(_state(graph))
    layers = sum(name.endswith(".wide.weight") for name in state)
    made = CrossEncoderNetwork(_empty(state, layers), still, layers=layers)
    made.load_state_dict(state)
    return made


def _state(graph: Path) -> Iterator[tuple[str, Tensor]]:
    packed = {
        name: weight_packing.dequantise(each)
        for name, each in onnx_sessions.read_packed_weights(graph.with_suffix(".npz"))
    }
    model = onnx.load(str(graph), load_external_data=False).graph
    plain = {
        each.name: numpy_helper.to_array(each)
        for each in model.initializer
        if not each.external_data
    }
    yield (
        "encoder.embeddings.pieces.weight",
        torch.from_numpy(packed[onnx_sessions.EMBEDDING_TABLE]),
    )
    yield f"{PLACES}.weight", torch.from_numpy(plain[f"{PLACES}.table"] * plain[f"{PLACES}.scale"])
    for name, value in plain.items():
        if name.endswith((".weight", ".bias", ".by_distance")):
            yield name, torch.from_numpy(value.copy())
    yield from _products(model, packed, plain)


def _products(
    model: Any, packed: Mapping[str, Any], plain: Mapping[str, Any]
) -> Iterator[tuple[str, Tensor]]:
    turned = {name: value.T for name, value in plain.items() if name.startswith("onnx::")} | dict(
        packed
    )
    for node in model.node:
        named = PRODUCT.fullmatch(node.name)
        if named and node.input[1] in turned:
            weight = np.array(turned[node.input[1]], order="C")
            yield f"{named['module'].replace('/', '.')}.weight", torch.from_numpy(weight)


def _empty(state: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Starting weights of the right shapes and nothing in them."""
    rows, size = state["encoder.embeddings.pieces.weight"].shape
    places, heads = len(state[f"{PLACES}.weight"]), len(state["encoder.by_distance"])
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (rows + VOCAB_OFFSET + 1, size),
        "embeddings.position_embeddings.weight": (places + POSITION_OFFSET, size),
        "encoder.relative_attention_bias.weight": (4 * EXACT_DISTANCE_BUCKETS, heads),
        "embeddings.LayerNorm.weight": (size,),
        "embeddings.LayerNorm.bias": (size,),
    }
    shapes |= {
        f"encoder.layer.{at}.{theirs}.{part}": tuple(
            state[f"encoder.layers.{at}.{ours}.{part}"].shape
        )
        for at in range(layers)
        for theirs, ours in LAYER.items()
        for part in ("weight", "bias")
    }
    return {name: torch.zeros(shape) for name, shape in shapes.items()}
