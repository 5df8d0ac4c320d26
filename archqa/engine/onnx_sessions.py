"""Running the engine's networks by onnxruntime: how one is opened, and the workers that all of them share."""

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
"""Runs of a network at the same time, each on one core: quicker than one run shared by two cores."""

SLOWER = ["SkipLayerNormFusion"]
"""What onnxruntime makes of a sum and a norm takes a processor three times as long as the two (1.32, measured)."""

EMBEDDING_TABLE = "encoder.embeddings.pieces.table"
"""The one packed weight that a graph holds as it is packed; it multiplies by the others from the right."""

Task = TypeVar("Task")
Result = TypeVar("Result")


def open_session(model: Path) -> ort.InferenceSession:
    """One onnxruntime session on the processor, each run of it on the thread that asks for it.

    Its memory arena keeps what the largest input took; without it every run fetches its pages anew. It plans no memory
    by shapes: notes differ in length, and each would keep room of its own. Weights that are packed beside the graph, in
    a file of its name and `.npz`, are unpacked into it.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_mem_pattern = False
    weights = _unpacked(model.with_suffix(".npz"))
    values = [ort.OrtValue.ortvalue_from_numpy(each) for each in weights.values()]
    options.add_external_initializers(list(weights), values)
    return ort.InferenceSession(
        str(model), options, providers=["CPUExecutionProvider"], disabled_optimizers=SLOWER
    )


def read_packed_weights(file: Path) -> Iterator[tuple[str, PackedWeights]]:
    """The packed weights of a file with the names that the graph knows them by; none where there is no such file."""
    if not file.exists():
        return
    with np.load(file) as arrays:
        for name in sorted({name.rsplit("/", 1)[0] for name in arrays.files}):
            yield name, PackedWeights(*(arrays[f"{name}/{part}"] for part in PackedWeights._fields))


def _unpacked(file: Path) -> dict[str, NDArray[np.int8]]:
    """Some are unpacked while the next are read."""
    at_hand = {
        name: submit_to_pool(partial(_laid_out, name), each)
        for name, each in read_packed_weights(file)
    }
    return {name: each.result() for name, each in at_hand.items()}


def _laid_out(name: str, weight: PackedWeights) -> NDArray[np.int8]:
    whole = weight_packing.unpack_weights(weight)
    return whole if name == EMBEDDING_TABLE else np.ascontiguousarray(whole.T)


def submit_to_pool(run: Callable[[Task], Result], task: Task) -> Future[Result]:
    """Hands one run of a network to the workers, which all networks share. A run must not wait for another."""
    return _workers().submit(run, task)


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, "archqa-evidence")
