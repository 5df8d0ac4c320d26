"""onnxruntime sessions of the engine's networks, and the thread pool that they share."""

import hashlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import onnxruntime as ort
from numpy.typing import NDArray

from archqa.core.stopping import current_stop
from archqa.engine import packed_weights
from archqa.engine.packed_weights import WeightLocation

WORKERS = 2
"""Concurrent inferences, each on one core: faster than one inference on two cores."""

SHARES = 4
"""Parts in which weights are decompressed: enough that the cores end at about the same time."""

SLOW_OPTIMIZERS = ["SkipLayerNormFusion"]
"""The fused sum and norm takes three times as long as the two (onnxruntime 1.32, measured)."""

EMBEDDING_TABLE = "encoder.embeddings.pieces.table"
"""The one packed weight that a graph reads row by row; the rest are transposed for products."""

EMBEDDING_SCALE = "encoder.embeddings.pieces.scale"
QUANTISED_SUFFIX, SCALE_SUFFIX = "_quantized", "_scale"
"""What onnxruntime's quantisation appends to a weight's name, for its integers and their scale."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def open_session(model: Path) -> ort.InferenceSession:
    """Open a session on the CPU; each inference runs on the thread that calls it.

    Memory patterns are off: notes differ in length, and each length would reserve memory of its
    own. Weights in the `.npz` file of the same name are unpacked into the graph, with their scales.
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


def _unpack_weights(file: Path) -> dict[str, NDArray[Any]]:
    """Decompress and unpack the weights of a file, and their scales, in the pool."""
    locations = packed_weights.weight_locations(file)
    pending = [
        submit_to_pool(_unpack_locations, locations[share::SHARES]) for share in range(SHARES)
    ]
    weights = {}
    for unpacked in pending:
        weights.update(unpacked.result())
    return weights


def _unpack_locations(locations: list[WeightLocation]) -> dict[str, NDArray[Any]]:
    weights: dict[str, NDArray[Any]] = {}
    for name, packed in packed_weights.read_locations(locations):
        if name == EMBEDDING_TABLE:
            weights[name] = packed_weights.unpack_weights(packed)
            weights[EMBEDDING_SCALE] = packed.scale[:, None]
        else:
            weights[name] = packed_weights.unpack_transposed(packed)
            weights[name.removesuffix(QUANTISED_SUFFIX) + SCALE_SUFFIX] = packed.scale
    return weights


def files_sha256(*files: Path) -> str:
    """Return the sha256 of the files, one after the other, without reading one as a whole."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()


def submit_to_pool(run: Callable[[Task], Result], task: Task) -> Future[Result]:
    """Run `task` in the pool that all networks share. A task must not wait for another task.

    Its future raises `Stopped` where the work that it belongs to was stopped before it began.
    """
    stop = current_stop()

    def run_unless_stopped(task: Task) -> Result:
        if stop is not None:
            stop.raise_if_requested()
        return run(task)

    return _thread_pool().submit(run_unless_stopped, task)


@cache
def _thread_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, "archqa-evidence")
