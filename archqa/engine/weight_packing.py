"""Weights packed into at most four bits each.

A row has a scale, a block of a row a factor, and a weight a small code:
weight = scale x factor x code. Factor x code is the eight-bit integer that a processor multiplies;
it fits seven bits, because integer products on processors without VNNI can overflow with eight
(`reduce_range` in onnxruntime's documentation on quantization). A code takes half a byte; where
fewer than 15 codes are used, compressing the file saves the rest.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

EMBEDDING_BLOCK_SIZE = 64
LAYER_BLOCK_SIZE = 128
"""Weights that share a factor: of embeddings, and of layers."""
MAX_CODE = 7
"""The highest code that half a byte holds; codes range from -7 to 7."""
MAX_QUANTISED_VALUE = 63
"""The highest factor x code."""
EMBEDDING_MAX_CODE, LAYER_MAX_CODE = 3, 5
"""The highest code of the cross-encoder's token embeddings, and of its linear layers."""
FACTOR_FRACTIONS = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Fractions of the lowest factor without clipping that are tried; the closest fit is used."""

Floats = NDArray[np.float32]


class PackedWeights(NamedTuple):
    """`codes` (rows, columns / 2), two to a byte; `factors` (rows, blocks); `scale` (rows,).

    Without factors (no blocks) a code has a byte of its own, and `codes` is (rows, columns).
    """

    codes: NDArray[np.uint8]
    factors: NDArray[np.uint8]
    scale: Floats


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


def pack_bytes(weight: Floats) -> PackedWeights:
    """Pack a matrix with a byte a weight: `MAX_QUANTISED_VALUE` levels on each side of 0.

    For weights that were trained without quantisation. Their training moves them by less than the
    distance of two levels of four bits, and would be lost.
    """
    row_max = np.maximum(np.abs(weight).max(1), np.float32(1e-8))
    scale: Floats = row_max / np.float32(MAX_QUANTISED_VALUE)
    codes = np.round(weight / scale[:, None]).astype(np.int8)
    no_factors = np.empty((len(weight), 0), dtype=np.uint8)
    return PackedWeights(codes.view(np.uint8), no_factors, scale)


def scales_and_factors(weight: Floats, block_size: int, max_code: int) -> tuple[Floats, Floats]:
    """Return the scale of each row (rows,) and the best factor of each block (rows, blocks)."""
    max_factor = MAX_QUANTISED_VALUE // max_code
    row_max = np.maximum(np.abs(weight).max(1), np.float32(1e-8))
    scale: Floats = row_max / np.float32(max_code * max_factor)
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


def unpack_weights(packed: PackedWeights) -> NDArray[np.int8]:
    """Return factor x code of every weight, of shape (rows, columns)."""
    rows, half_columns = packed.codes.shape
    if not packed.factors.size:
        return packed.codes.view(np.int8)
    codes = np.empty((rows, half_columns, 2), dtype=np.int8)
    codes[..., 0] = packed.codes & 15
    codes[..., 1] = packed.codes >> 4
    codes -= MAX_CODE
    blocks = codes.reshape(rows, packed.factors.shape[1], -1)
    blocks *= packed.factors.view(np.int8)[..., None]
    return blocks.reshape(rows, 2 * half_columns)


def unpack_transposed(packed: PackedWeights) -> NDArray[np.int8]:
    """Return `unpack_weights(packed).T` in C order, of shape (columns, rows).

    Faster than to unpack and transpose: the codes are transposed while two share a byte, and each
    step runs over whole rows of the result.
    """
    rows, half_columns = packed.codes.shape
    transposed_codes = np.ascontiguousarray(packed.codes.T)
    if not packed.factors.size:
        return transposed_codes.view(np.int8)
    codes = np.empty((half_columns, 2, rows), dtype=np.int8)
    codes[:, 0] = transposed_codes & 15
    codes[:, 1] = transposed_codes >> 4
    codes -= MAX_CODE
    factors = np.ascontiguousarray(packed.factors.T).view(np.int8)
    blocks = codes.reshape(len(factors), -1, rows)
    blocks *= factors[:, None]
    return blocks.reshape(2 * half_columns, rows)


def dequantise(packed: PackedWeights) -> Floats:
    """Return the weights that `packed` stands for, of shape (rows, columns)."""
    return unpack_weights(packed) * packed.scale[:, None]


def quantise(
    weight: Floats,
    block_size: int = EMBEDDING_BLOCK_SIZE,
    max_code: int = MAX_CODE,
) -> Floats:
    """Return the weights nearest to `weight` that packing can represent."""
    return dequantise(pack_weights(weight, block_size, max_code))


def _squared_error(blocks: Floats, factors: Floats, max_code: int) -> Floats:
    step = factors[..., None]
    quantised = np.clip(np.round(blocks / step), -max_code, max_code) * step
    error: Floats = ((quantised - blocks) ** 2).sum(2)
    return error
