"""onnxruntime sessions of the engine's networks, and the thread pool that they share."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from archqa.engine import weight_packing
from archqa.engine.weight_packing import PackedWeights

WORKERS = 2
"""Concurrent inferences, each on one core: faster than one inference on two cores."""

SHARES = 4
"""Parts in which weights are decompressed: enough that the cores end at about the same time."""

SLOW_OPTIMIZERS = ["SkipLayerNormFusion"]
"""The fused sum and norm takes three times as long as the two (onnxruntime 1.32, measured)."""

EMBEDDING_TABLE = "encoder.embeddings.pieces.table"
"""The one packed weight that a graph reads row by row; the rest are transposed for products."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def open_session(model: Path) -> ort.InferenceSession:
    """Open a session on the CPU; each inference runs on the thread that calls it.

    Memory patterns are off: notes differ in length, and each length would reserve memory of its
    own. Weights in the `.npz` file of the same name are unpacked into the graph.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_mem_pattern = False
    weights = _unpack_weights(model.with_suffix(".npz"))
    values = [ort.OrtValue.ortvalue_from_numpy(weight) for weight in weights.values()]
    options.add_external_initializers(list(weights), values)
    return ort.InferenceSession(
        str(model),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=SLOW_OPTIMIZERS,
    )


def read_packed_weights(file: Path) -> Iterator[tuple[str, PackedWeights]]:
    """Yield the packed weights of a file by their names in the graph; none without the file."""
    return _read_share(file, 0, 1)


def _read_share(file: Path, share: int, shares: int) -> Iterator[tuple[str, PackedWeights]]:
    """Yield every weight whose place in the order of names is `share` modulo `shares`."""
    if not file.exists():
        return
    with np.load(file) as arrays:
        names = {array_name.rsplit("/", 1)[0] for array_name in arrays.files}
        for name in sorted(names)[share::shares]:
            packed = PackedWeights(
                codes=arrays[f"{name}/codes"],
                factors=arrays[f"{name}/factors"],
                scale=arrays[f"{name}/scale"],
            )
            yield name, packed


def _unpack_weights(file: Path) -> dict[str, NDArray[np.int8]]:
    """Decompress and unpack the weights of a file in the pool."""
    pending = []
    for share in range(SHARES):
        unpack = partial(_unpack_share, file)
        pending.append(submit_to_pool(unpack, share))
    weights = {}
    for unpacked in pending:
        weights.update(unpacked.result())
    return weights


def _unpack_share(file: Path, share: int) -> dict[str, NDArray[np.int8]]:
    weights = {}
    for name, packed in _read_share(file, share, SHARES):
        if name == EMBEDDING_TABLE:
            weights[name] = weight_packing.unpack_weights(packed)
        else:
            weights[name] = weight_packing.unpack_transposed(packed)
    return weights


def files_sha256(*files: Path) -> str:
    """Return the sha256 of the files, one after the other, without reading one as a whole."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()


def submit_to_pool(run: Callable[[Task], Result], task: Task) -> Future[Result]:
    """Run `task` in the pool that all networks share. A task must not wait for another task."""
    return _thread_pool().submit(run, task)


@cache
def _thread_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, "archqa-evidence")
