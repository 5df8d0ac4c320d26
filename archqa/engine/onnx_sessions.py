"""onnxruntime sessions of the engine's networks, and the thread pool that they share."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from archqa.engine import weight_packing
from archqa.engine.weight_packing import PackedWeights

WORKERS = 2
"""Concurrent inferences, each on one core: faster than one inference on two cores."""

SLOW_OPTIMIZERS = ["SkipLayerNormFusion"]
"""The fused sum and norm takes three times as long as the two (onnxruntime 1.32, measured)."""

EMBEDDING_TABLE = "encoder.embeddings.pieces.table"
"""The one packed weight that a graph reads row by row; the rest are transposed for products."""

REFERENCE, REFERENCE_MARK = "reference", "#"
"""The array of a packed weight that stands in another file, which it names as `file#name`."""

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
    """Yield the packed weights of a file by their names in the graph; none without the file.

    A weight that another file of the folder has as well stands there alone, and here as a reference.
    """
    if not file.exists():
        return
    with np.load(file) as arrays:
        names = {array_name.rsplit("/", 1)[0] for array_name in arrays.files}
        references = {}
        for name in sorted(names):
            if f"{name}/{REFERENCE}" in arrays.files:
                references[name] = str(arrays[f"{name}/{REFERENCE}"])
            else:
                yield name, _packed_weights(arrays, name)
    yield from _referenced_weights(file.parent, references)


def _referenced_weights(
    folder: Path, references: Mapping[str, str]
) -> Iterator[tuple[str, PackedWeights]]:
    for file_name in {reference.split(REFERENCE_MARK, 1)[0] for reference in references.values()}:
        with np.load(folder / file_name) as arrays:
            for name, reference in references.items():
                owner, name_there = reference.split(REFERENCE_MARK, 1)
                if owner == file_name:
                    yield name, _packed_weights(arrays, name_there)


def _packed_weights(arrays: Mapping[str, NDArray[Any]], name: str) -> PackedWeights:
    return PackedWeights(
        codes=arrays[f"{name}/codes"],
        factors=arrays[f"{name}/factors"],
        scale=arrays[f"{name}/scale"],
    )


def _unpack_weights(file: Path) -> dict[str, NDArray[np.int8]]:
    """Unpack weights in the pool while the next ones are read from disk."""
    pending = {}
    for name, packed in read_packed_weights(file):
        unpack = partial(_unpack_for_graph, name)
        pending[name] = submit_to_pool(unpack, packed)
    return {name: future.result() for name, future in pending.items()}


def _unpack_for_graph(name: str, packed: PackedWeights) -> NDArray[np.int8]:
    weight = weight_packing.unpack_weights(packed)
    if name == EMBEDDING_TABLE:
        return weight
    return np.ascontiguousarray(weight.T)


def submit_to_pool(run: Callable[[Task], Result], task: Task) -> Future[Result]:
    """Run `task` in the pool that all networks share. A task must not wait for another task."""
    return _thread_pool().submit(run, task)


@cache
def _thread_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, "archqa-evidence")
