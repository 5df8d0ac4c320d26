"""Weights packed into at most four bits each, and fine-tuned ones as an update of low rank.

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
MAX_BYTE = 127
"""The highest integer of an update's two matrices."""
EMBEDDING_MAX_CODE, LAYER_MAX_CODE = 3, 5
"""The highest code of the cross-encoder's token embeddings, and of its linear layers."""
FACTOR_FRACTIONS = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Fractions of the lowest factor without clipping that are tried; the closest fit is used."""

Floats = NDArray[np.float32]


class PackedWeights(NamedTuple):
    """`codes` (rows, columns / 2), two to a byte; `factors` (rows, blocks); `scale` (rows,)."""

    codes: NDArray[np.uint8]
    factors: NDArray[np.uint8]
    scale: Floats


class LowRankUpdate(NamedTuple):
    """What fine-tuning adds to a matrix: `up` (rows, rank) times `down` (rank, columns).

    Both are integers; a row of their product is scaled by `update_scale` (rows,). `scale` (rows,) is
    that of the sum, whose integers range from -63 to 63 (low-rank adaptation, Hu et al. 2021,
    arXiv:2106.09685).
    """

    up: NDArray[np.int8]
    down: NDArray[np.int8]
    update_scale: Floats
    scale: Floats


class UpdatedWeights(NamedTuple):
    """A packed matrix that stands in another file, and the update of it."""

    base: PackedWeights
    update: LowRankUpdate

    @property
    def scale(self) -> Floats:
        """The scale of each row of the sum, of shape (rows,)."""
        return self.update.scale


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
    scale = _row_maxima(_updated_transposed(base, update).T) / np.float32(MAX_QUANTISED_VALUE)
    return UpdatedWeights(base, update._replace(scale=scale))


def _row_maxima(rows: Floats) -> Floats:
    """Return the highest absolute value of each row, never 0."""
    maxima: Floats = np.maximum(np.abs(rows).max(1), np.float32(1e-8))
    return maxima


def _round_to_bytes(units: Floats) -> NDArray[np.int8]:
    return np.round(units * np.float32(MAX_BYTE)).astype(np.int8)


def scales_and_factors(weight: Floats, block_size: int, max_code: int) -> tuple[Floats, Floats]:
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


def unpack_weights(packed: PackedWeights | UpdatedWeights) -> NDArray[np.int8]:
    """Return the integers of every weight, of shape (rows, columns)."""
    if isinstance(packed, UpdatedWeights):
        return np.ascontiguousarray(unpack_transposed(packed).T)
    rows, half_columns = packed.codes.shape
    codes = np.empty((rows, half_columns, 2), dtype=np.int8)
    codes[..., 0] = packed.codes & 15
    codes[..., 1] = packed.codes >> 4
    codes -= MAX_CODE
    blocks = codes.reshape(rows, packed.factors.shape[1], -1)
    blocks *= packed.factors.view(np.int8)[..., None]
    return blocks.reshape(rows, 2 * half_columns)


def unpack_transposed(packed: PackedWeights | UpdatedWeights) -> NDArray[np.int8]:
    """Return `unpack_weights(packed).T` in C order, of shape (columns, rows).

    Faster than to unpack and transpose: the codes are transposed while two share a byte, and each
    step runs over whole rows of the result.
    """
    if isinstance(packed, UpdatedWeights):
        levels = _updated_transposed(packed.base, packed.update)
        levels /= packed.update.scale
        return np.rint(levels, out=levels).astype(np.int8)
    rows, half_columns = packed.codes.shape
    transposed_codes = np.ascontiguousarray(packed.codes.T)
    codes = np.empty((half_columns, 2, rows), dtype=np.int8)
    codes[:, 0] = transposed_codes & 15
    codes[:, 1] = transposed_codes >> 4
    codes -= MAX_CODE
    factors = np.ascontiguousarray(packed.factors.T).view(np.int8)
    blocks = codes.reshape(len(factors), -1, rows)
    blocks *= factors[:, None]
    return blocks.reshape(2 * half_columns, rows)


def _updated_transposed(base: PackedWeights, update: LowRankUpdate) -> Floats:
    """Return the sum of a matrix and its update, of shape (columns, rows).

    The integers' product is exact in floats whatever the order of its sums, so that every processor
    gets the same weights.
    """
    product: Floats = update.down.T.astype(np.float32) @ update.up.T.astype(np.float32)
    product *= update.update_scale
    product += unpack_transposed(base) * base.scale
    return product


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


def _squared_error(blocks: Floats, factors: Floats, max_code: int) -> Floats:
    step = factors[..., None]
    quantised = np.clip(np.round(blocks / step), -max_code, max_code) * step
    error: Floats = ((quantised - blocks) ** 2).sum(2)
    return error
