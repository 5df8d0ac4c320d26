"""Files of packed weights, as a session reads them."""

from pathlib import Path
from typing import Any

import numpy as np

from archqa.engine import onnx_sessions, weight_packing
from archqa.engine.weight_packing import PackedWeights


def random_weights(seed: int) -> PackedWeights:
    weight = np.random.default_rng(seed).normal(size=(4, 128)).astype(np.float32)
    return weight_packing.pack_weights(weight)


def arrays_of(name: str, packed: PackedWeights) -> dict[str, Any]:
    return {f"{name}/{field}": array for field, array in packed._asdict().items()}


def test_a_weight_that_refers_to_another_file_is_read_from_there(tmp_path: Path) -> None:
    own, shared = random_weights(1), random_weights(2)
    np.savez_compressed(tmp_path / "first.npz", **arrays_of("there", shared))
    reference = {"here/reference": np.array("first.npz#there")}
    np.savez_compressed(tmp_path / "second.npz", **arrays_of("own", own), **reference)
    weights = dict(onnx_sessions.read_packed_weights(tmp_path / "second.npz"))
    assert set(weights) == {"own", "here"}
    for name, expected in (("own", own), ("here", shared)):
        unpacked = weight_packing.unpack_weights(weights[name])
        assert np.array_equal(unpacked, weight_packing.unpack_weights(expected))


def test_an_update_of_a_weight_of_another_file_is_read_with_it(tmp_path: Path) -> None:
    shared = random_weights(1)
    random = np.random.default_rng(2)
    up, down = random.normal(size=(4, 2)), random.normal(size=(2, 128))
    expected = weight_packing.pack_update(shared, up.astype(np.float32), down.astype(np.float32))
    np.savez_compressed(tmp_path / "first.npz", **arrays_of("there", shared))
    arrays: dict[str, Any] = {"here/reference": np.array("first.npz#there")}
    for field, array in expected.update._asdict().items():
        arrays[f"here/{field}"] = array
    np.savez_compressed(tmp_path / "second.npz", **arrays)
    [(name, read)] = onnx_sessions.read_packed_weights(tmp_path / "second.npz")
    assert name == "here"
    assert np.array_equal(weight_packing.dequantise(read), weight_packing.dequantise(expected))
    assert not np.array_equal(weight_packing.dequantise(read), weight_packing.dequantise(shared))


def test_a_graph_without_a_file_of_weights_has_none(tmp_path: Path) -> None:
    assert list(onnx_sessions.read_packed_weights(tmp_path / "absent.npz")) == []
