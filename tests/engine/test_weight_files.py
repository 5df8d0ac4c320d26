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


def test_a_graph_without_a_file_of_weights_has_none(tmp_path: Path) -> None:
    assert list(onnx_sessions.read_packed_weights(tmp_path / "absent.npz")) == []
