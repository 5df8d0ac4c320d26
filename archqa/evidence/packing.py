"""Weights in four bits each, which become the eight-bit integers that a processor multiplies.

A row shares a scale, a block of a row a factor of 1 to 9, a weight is -7 to 7: weight = scale x factor x code. So
factor x code fits seven bits, as the quickest integer products of processors without VNNI want (`reduce_range` of
onnxruntime's quantization page), and a file holds half of what int8 takes.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 64
WIDE = 128
"""Weights that share a factor: of embeddings, and of layers."""
MOST, FACTORS = 7, 9
TRIED = 3
"""The factors that are tried for a block: from the least that clips nothing downwards; the closest fit is taken."""

Floats = NDArray[np.float32]


class Packed(NamedTuple):
    """`codes` (rows, columns / 2), two to a byte; `factors` (rows, blocks); `scale` (rows,)."""

    codes: NDArray[np.uint8]
    factors: NDArray[np.uint8]
    scale: Floats


def pack(weight: Floats, block: int = BLOCK) -> Packed:
    """Each weight to the nearest code; of shape (rows, columns), columns a multiple of `block`."""
    scale = _scale(weight)
    parts = np.split(weight / scale[:, None], weight.shape[1] // block, axis=1)
    factors = [_factor(part) for part in parts]
    return _packed([_codes(part, factor) for part, factor in zip(parts, factors, strict=True)], factors, scale)


def unpack(packed: Packed) -> NDArray[np.int8]:
    """Factor x code of each weight, of shape (rows, columns)."""
    rows, half = packed.codes.shape
    codes = np.empty((rows, half, 2), dtype=np.int8)
    codes[..., 0] = packed.codes & 15
    codes[..., 1] = packed.codes >> 4
    codes -= MOST
    blocks = codes.reshape(rows, packed.factors.shape[1], -1)
    blocks *= packed.factors.view(np.int8)[..., None]
    return blocks.reshape(rows, 2 * half)


def restored(packed: Packed) -> Floats:
    """The weights that the packed ones stand for."""
    return unpack(packed) * packed.scale[:, None]


def _scale(weight: Floats) -> Floats:
    scale: Floats = np.maximum(np.abs(weight).max(1), np.float32(1e-8)) / np.float32(MOST * FACTORS)
    return scale


def _factor(part: Floats) -> Floats:
    """Of each row of a block: the one whose rounding is closest."""
    least = np.clip(np.ceil(np.abs(part).max(1) / MOST - 1e-4), 1, FACTORS)
    tried = [np.maximum(least - fewer, 1).astype(np.float32) for fewer in range(TRIED)]
    errors = [((_codes(part, factor) * factor[:, None] - part) ** 2).sum(1) for factor in tried]
    best: Floats = np.choose(np.argmin(errors, axis=0), tried)
    return best


def _codes(part: Floats, factor: Floats) -> Floats:
    codes: Floats = np.clip(np.round(part / factor[:, None]), -MOST, MOST)
    return codes


def _packed(codes: list[Floats], factors: list[Floats], scale: Floats) -> Packed:
    shifted = (np.concatenate(codes, axis=1) + MOST).astype(np.uint8)
    two = np.bitwise_or(shifted[:, 0::2], shifted[:, 1::2] * np.uint8(16))
    return Packed(two, np.stack(factors, axis=1).astype(np.uint8), scale)
