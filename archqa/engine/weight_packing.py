"""Weights in at most four bits each, which become the eight-bit integers that a processor multiplies.

A row shares a scale, a block of a row a factor, a weight is a small code: weight = scale x factor x code. Factor x code
fits seven bits, as the quickest integer products of processors without VNNI want (`reduce_range` of onnxruntime's
quantization page). A code takes half a byte; where fewer than 15 are used, compressing the file saves the rest.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

EMBEDDING_BLOCK_SIZE = 64
LAYER_BLOCK_SIZE = 128
"""Weights that share a factor: of embeddings, and of layers."""
MAX_CODE, MAX_QUANTISED_VALUE = 7, 63
"""The greatest code that half a byte holds, and the greatest factor x code."""
EMBEDDING_MAX_CODE, LAYER_MAX_CODE = 3, 5
"""The greatest code of the reader's piece embeddings, and of its layers' maps."""
TRIED = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Of the least factor that clips nothing, the shares that are tried for a block; the closest fit is taken."""

Floats = NDArray[np.float32]


class PackedWeights(NamedTuple):
    """`codes` (rows, columns / 2), two to a byte; `factors` (rows, blocks); `scale` (rows,)."""

    codes: NDArray[np.uint8]
    factors: NDArray[np.uint8]
    scale: Floats


def pack_weights(
    weight: Floats, block: int = EMBEDDING_BLOCK_SIZE, most: int = MAX_CODE
) -> PackedWeights:
    """Each weight to the nearest code of -`most` to `most`; of shape (rows, columns), columns a multiple of `block`."""
    scale, factors = scales_and_factors(weight, block, most)
    codes = np.clip(
        np.round(weight / (scale[:, None] * factors.repeat(block, axis=1))), -most, most
    )
    shifted = (codes + MAX_CODE).astype(np.uint8)
    return PackedWeights(
        np.bitwise_or(shifted[:, 0::2], shifted[:, 1::2] * np.uint8(16)),
        factors.astype(np.uint8),
        scale,
    )


def scales_and_factors(weight: Floats, block: int, most: int) -> tuple[Floats, Floats]:
    """The scale of each row and the factor of each block, (rows,) and (rows, blocks): the closest of those tried."""
    top = MAX_QUANTISED_VALUE // most
    scale: Floats = np.maximum(np.abs(weight).max(1), np.float32(1e-8)) / np.float32(most * top)
    parts = (weight / scale[:, None]).reshape(len(weight), -1, block)
    least = np.clip(np.ceil(np.abs(parts).max(2) / most - 1e-4), 1, top)
    tried = [np.maximum(np.round(least * share), 1).astype(np.float32) for share in TRIED]
    errors = [_error(parts, factor, most) for factor in tried]
    best: Floats = np.choose(np.argmin(errors, axis=0), tried)
    return scale, best


def unpack_weights(packed: PackedWeights) -> NDArray[np.int8]:
    """Factor x code of each weight, of shape (rows, columns)."""
    rows, half = packed.codes.shape
    codes = np.empty((rows, half, 2), dtype=np.int8)
    codes[..., 0] = packed.codes & 15
    codes[..., 1] = packed.codes >> 4
    codes -= MAX_CODE
    blocks = codes.reshape(rows, packed.factors.shape[1], -1)
    blocks *= packed.factors.view(np.int8)[..., None]
    return blocks.reshape(rows, 2 * half)


def dequantise(packed: PackedWeights) -> Floats:
    """The weights that the packed ones stand for."""
    return unpack_weights(packed) * packed.scale[:, None]


def _error(parts: Floats, factor: Floats, most: int) -> Floats:
    step = factor[..., None]
    missed: Floats = ((np.clip(np.round(parts / step), -most, most) * step - parts) ** 2).sum(2)
    return missed
