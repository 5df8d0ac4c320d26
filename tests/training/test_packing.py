import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from archqa.engine.networks import unpack_transposed, unpack_weights
from training import packing

ROWS = st.integers(1, 4)


@given(
    ROWS,
    st.sampled_from([64, 128, 384]),
    st.integers(0, 2**32 - 1),
    st.floats(1e-6, 1e3),
    st.sampled_from([3, 5, 7]),
)
def test_a_weight_comes_back_within_half_a_step_of_its_block(
    rows: int, columns: int, seed: int, size: float, max_code: int
) -> None:
    weight = (np.random.default_rng(seed).normal(size=(rows, columns)) * size).astype(
        np.float32
    )
    packed = packing.pack_weights(weight, max_code=max_code)
    error = (packing.dequantise(packed) - weight).reshape(
        rows, -1, packing.EMBEDDING_BLOCK_SIZE
    )
    greatest = np.abs(weight).reshape(rows, -1, packing.EMBEDDING_BLOCK_SIZE).max(2)
    step = greatest / max_code + packed.scale[:, None]
    assert (np.sqrt((error**2).mean(2)) <= 0.501 * step).all()
    assert (
        np.abs(unpack_weights(packed).astype(int)).max() <= packing.MAX_QUANTISED_VALUE
    )
    assert np.ptp((packed.codes & 15).astype(int)) <= 2 * max_code


def test_what_was_packed_once_packs_into_the_same_integers() -> None:
    weight = np.arange(-7, 8, dtype=np.float32).repeat(9)[:128].reshape(1, 128) * 9
    assert np.array_equal(packing.dequantise(packing.pack_weights(weight)), weight)


def test_a_row_of_zeros_stays_zero() -> None:
    assert not packing.dequantise(
        packing.pack_weights(np.zeros((2, 64), np.float32))
    ).any()


def test_half_a_byte_a_weight() -> None:
    packed = packing.pack_weights(
        np.ones((3, 256), np.float32), packing.LAYER_BLOCK_SIZE
    )
    assert packed.codes.shape == (3, 128)
    assert packed.factors.shape == (3, 2)


@given(ROWS, st.integers(1, 8), st.integers(0, 2**32 - 1), st.floats(1e-3, 10))
def test_an_update_of_low_rank_is_added_to_the_weight_within_its_rounding(
    rows: int, rank: int, seed: int, size: float
) -> None:
    random = np.random.default_rng(seed)
    base = packing.pack_weights(random.normal(size=(rows, 128)).astype(np.float32))
    up = (random.normal(size=(rows, rank)) * size).astype(np.float32)
    down = random.normal(size=(rank, 128)).astype(np.float32)
    updated = packing.pack_update(base, up, down)
    error = np.abs(packing.dequantise(updated) - packing.dequantise(base) - up @ down)
    largest = np.abs(up * np.abs(down).max(1)).max(1)
    assert (error.max(1) <= 0.501 * updated.scale + rank * largest * 1.01 / 127).all()


def test_an_update_that_is_zero_changes_only_the_rounding() -> None:
    weight = np.arange(-63, 65, dtype=np.float32).reshape(1, 128)
    base = packing.pack_weights(weight)
    updated = packing.pack_update(
        base, np.zeros((1, 2), np.float32), np.ones((2, 128), np.float32)
    )
    difference = packing.dequantise(updated) - packing.dequantise(base)
    assert np.abs(difference).max() <= 0.501 * updated.scale


def test_an_updated_weight_has_seven_bits_and_is_transposed_for_a_graph() -> None:
    random = np.random.default_rng(1)
    base = packing.pack_weights(random.normal(size=(3, 64)).astype(np.float32))
    updated = packing.pack_update(
        base,
        random.normal(size=(3, 2)).astype(np.float32),
        random.normal(size=(2, 64)).astype(np.float32),
    )
    unpacked = unpack_weights(updated)
    assert np.abs(unpacked.astype(int)).max() == packing.MAX_QUANTISED_VALUE
    assert np.array_equal(unpack_transposed(updated), unpacked.T)
