"""Packed weights: how they are unpacked, and files of them as a session reads them."""

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from archqa.engine.networks import (
    MAX_CODE,
    LowRankUpdate,
    PackedWeights,
    UpdatedWeights,
    read_locations,
    unpack_transposed,
    unpack_weights,
    weight_locations,
)

BLOCK_SIZE = 64


def random_weights(seed: int, rows: int = 4, blocks: int = 2) -> PackedWeights:
    random = np.random.default_rng(seed)
    half_columns = blocks * BLOCK_SIZE // 2
    low, high = random.integers(
        0, 2 * MAX_CODE + 1, (2, rows, half_columns), dtype=np.uint8
    )
    return PackedWeights(
        codes=low | high << np.uint8(4),
        factors=random.integers(1, 10, (rows, blocks), dtype=np.uint8),
        scale=random.random(rows, dtype=np.float32),
    )


def random_update(
    seed: int, rows: int = 4, columns: int = 2 * BLOCK_SIZE
) -> LowRankUpdate:
    random = np.random.default_rng(seed)
    return LowRankUpdate(
        up=random.integers(-127, 128, (rows, 2), dtype=np.int8),
        down=random.integers(-127, 128, (2, columns), dtype=np.int8),
        update_scale=np.full(rows, 1e-4, dtype=np.float32),
        scale=np.full(rows, 0.5, dtype=np.float32),
    )


def arrays_of(name: str, packed: PackedWeights | LowRankUpdate) -> dict[str, Any]:
    return {f"{name}/{field}": array for field, array in packed._asdict().items()}


def test_a_weight_is_the_product_of_its_code_and_the_factor_of_its_block() -> None:
    packed = random_weights(1)
    unpacked = unpack_weights(packed)
    for row, column in ((0, 0), (0, 1), (2, 63), (3, 64), (3, 127)):
        pair = int(packed.codes[row, column // 2])
        code = (pair >> 4 if column % 2 else pair & 15) - MAX_CODE
        assert unpacked[row, column] == code * packed.factors[row, column // BLOCK_SIZE]


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_weights_unpacked_for_a_graph_are_the_transposed_ones(
    rows: int, blocks: int, seed: int
) -> None:
    packed = random_weights(seed, rows, blocks)
    transposed = unpack_transposed(packed)
    assert np.array_equal(transposed, unpack_weights(packed).T)
    assert transposed.flags.c_contiguous


def test_an_update_is_added_to_the_weight_that_it_updates() -> None:
    base, update = random_weights(1), random_update(2)
    added = (update.up.astype(float) @ update.down.astype(float)) * update.update_scale[
        :, None
    ]
    expected = (unpack_weights(base) * base.scale[:, None] + added) / update.scale[
        :, None
    ]
    assert (
        np.abs(unpack_weights(UpdatedWeights(base, update)) - expected).max() <= 0.501
    )


def test_a_weight_that_refers_to_another_file_is_read_from_there(
    tmp_path: Path,
) -> None:
    own, shared = random_weights(1), random_weights(2)
    np.savez_compressed(tmp_path / "first.npz", **arrays_of("there", shared))
    reference = {"here/reference": np.array("first.npz#there")}
    np.savez_compressed(tmp_path / "second.npz", **arrays_of("own", own), **reference)
    weights = dict(read_locations(weight_locations(tmp_path / "second.npz")))
    assert set(weights) == {"own", "here"}
    for name, expected in (("own", own), ("here", shared)):
        assert np.array_equal(unpack_weights(weights[name]), unpack_weights(expected))


def test_an_update_of_a_weight_of_another_file_is_read_with_it(tmp_path: Path) -> None:
    shared, update = random_weights(1), random_update(2)
    np.savez_compressed(tmp_path / "first.npz", **arrays_of("there", shared))
    reference = {"here/reference": np.array("first.npz#there")}
    np.savez_compressed(
        tmp_path / "second.npz", **arrays_of("here", update), **reference
    )
    [(name, read)] = read_locations(weight_locations(tmp_path / "second.npz"))
    assert name == "here"
    expected = unpack_weights(UpdatedWeights(shared, update))
    assert np.array_equal(unpack_weights(read), expected)
    assert not np.array_equal(unpack_weights(read), unpack_weights(shared))


def test_a_graph_without_a_file_of_weights_has_none(tmp_path: Path) -> None:
    assert weight_locations(tmp_path / "absent.npz") == []
