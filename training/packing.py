"""Packing of weights into at most four bits each, and of fine-tuned ones as an update of low rank.

`archqa.engine.networks` has the format and unpacks it. Factor x code fits seven bits, because
integer products on processors without VNNI can overflow with eight (`reduce_range` in onnxruntime's
documentation on quantization). Where fewer than 15 codes are used, compressing the file saves the
rest.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from archqa.engine.networks import (
    MAX_CODE,
    Floats,
    LowRankUpdate,
    PackedWeights,
    UpdatedWeights,
    add_update,
    read_locations,
    unpack_weights,
    weight_locations,
)

EMBEDDING_BLOCK_SIZE = 64
LAYER_BLOCK_SIZE = 128
"""Weights that share a factor: of embeddings, and of layers."""
MAX_QUANTISED_VALUE = 63
"""The highest factor x code."""
MAX_BYTE = 127
"""The highest integer of an update's two matrices."""
EMBEDDING_MAX_CODE, LAYER_MAX_CODE = 3, 5
"""The highest code of the cross-encoder's token embeddings, and of its linear layers."""
FACTOR_FRACTIONS = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Fractions of the lowest factor without clipping that are tried; the closest fit is used."""


def pack_weights(
    weight: Floats,
    block_size: int = EMBEDDING_BLOCK_SIZE,
    max_code: int = MAX_CODE,
) -> PackedWeights:
    """Pack a matrix of shape (rows, columns), columns being a multiple of `block_size`."""
    scale, factors = scales_and_factors(weight, block_size, max_code)
    step = scale[:, None] * factors.repeat(block_size, axis=1)
    codes = np.clip(np.round(weight / step), -max_code, max_code)
    shifted = (codes + MAX_CODE).astype(np.uint8)
    low = shifted[:, 0::2]
    high = shifted[:, 1::2]
    packed_codes = np.bitwise_or(low, high * np.uint8(16))
    return PackedWeights(packed_codes, factors.astype(np.uint8), scale)


def pack_update(base: PackedWeights, up: Floats, down: Floats) -> UpdatedWeights:
    """Pack the update `up` @ `down` of a matrix, of shapes (rows, rank) and (rank, columns)."""
    down_maximum = _row_maxima(down)
    up_of_unit_rows = up * down_maximum
    up_maximum = _row_maxima(up_of_unit_rows)
    update = LowRankUpdate(
        up=_round_to_bytes(up_of_unit_rows / up_maximum[:, None]),
        down=_round_to_bytes(down / down_maximum[:, None]),
        update_scale=up_maximum / np.float32(MAX_BYTE**2),
        scale=np.ones(len(up), dtype=np.float32),
    )
    scale = _row_maxima(add_update(base, update).T) / np.float32(MAX_QUANTISED_VALUE)
    return UpdatedWeights(base, update._replace(scale=scale))


def _row_maxima(rows: Floats) -> Floats:
    """Return the highest absolute value of each row, never 0."""
    maxima: Floats = np.maximum(np.abs(rows).max(1), np.float32(1e-8))
    return maxima


def _round_to_bytes(units: Floats) -> NDArray[np.int8]:
    return np.round(units * np.float32(MAX_BYTE)).astype(np.int8)


def scales_and_factors(
    weight: Floats, block_size: int, max_code: int
) -> tuple[Floats, Floats]:
    """Return the scale of each row (rows,) and the best factor of each block (rows, blocks)."""
    max_factor = MAX_QUANTISED_VALUE // max_code
    scale: Floats = _row_maxima(weight) / np.float32(max_code * max_factor)
    blocks = (weight / scale[:, None]).reshape(len(weight), -1, block_size)
    unclipped = np.ceil(np.abs(blocks).max(2) / max_code - 1e-4)
    unclipped = np.clip(unclipped, 1, max_factor)
    candidates = []
    errors = []
    for fraction in FACTOR_FRACTIONS:
        rounded = np.round(unclipped * fraction)
        factors = np.maximum(rounded, 1).astype(np.float32)
        candidates.append(factors)
        errors.append(_squared_error(blocks, factors, max_code))
    best_factors: Floats = np.choose(np.argmin(errors, axis=0), candidates)
    return scale, best_factors


def dequantise(packed: PackedWeights | UpdatedWeights) -> Floats:
    """Return the weights that `packed` stands for, of shape (rows, columns)."""
    return unpack_weights(packed) * packed.scale[:, None]


def quantise(
    weight: Floats,
    block_size: int = EMBEDDING_BLOCK_SIZE,
    max_code: int = MAX_CODE,
) -> Floats:
    """Return the weights nearest to `weight` that packing can represent."""
    return dequantise(pack_weights(weight, block_size, max_code))


def read_packed_weights(
    file: Path,
) -> Iterator[tuple[str, PackedWeights | UpdatedWeights]]:
    """Yield the packed weights of a file by their names in the graph."""
    return read_locations(weight_locations(file))


def _squared_error(blocks: Floats, factors: Floats, max_code: int) -> Floats:
    step = factors[..., None]
    quantised = np.clip(np.round(blocks / step), -max_code, max_code) * step
    error: Floats = ((quantised - blocks) ** 2).sum(2)
    return error
