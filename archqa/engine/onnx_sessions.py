"""onnxruntime sessions of the engine's networks, and the thread pool that they share."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from archqa.core.stopping import current_stop
from archqa.engine import weight_packing
from archqa.engine.weight_packing import LowRankUpdate, PackedWeights, UpdatedWeights

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

REFERENCE, REFERENCE_MARK = "reference", "#"
"""The array of a packed weight that stands in another file, which it names as `file#name`."""

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


def read_packed_weights(file: Path) -> Iterator[tuple[str, PackedWeights | UpdatedWeights]]:
    """Yield the packed weights of a file by their names in the graph; none without the file.

    A weight that another file of the folder has as well stands there alone, and here as a reference,
    perhaps with an update of it.
    """
    return _read_places(_weight_places(file))


class _WeightPlace(NamedTuple):
    """The file of a packed weight, its name there, its name in the graph, and its update."""

    file: Path
    name_in_file: str
    name: str
    update: LowRankUpdate | None = None


def _weight_places(file: Path) -> list[_WeightPlace]:
    """Return where each weight of a graph stands, in the order of names."""
    if not file.exists():
        return []
    places = []
    with np.load(file) as arrays:
        for name in sorted({array_name.rsplit("/", 1)[0] for array_name in arrays.files}):
            place = _WeightPlace(file, name, name)
            if f"{name}/{REFERENCE}" in arrays.files:
                reference = str(arrays[f"{name}/{REFERENCE}"])
                other_file, _, name_there = reference.partition(REFERENCE_MARK)
                update = _read_update(arrays, name)
                place = _WeightPlace(file.parent / other_file, name_there, name, update)
            places.append(place)
    return places


def _read_update(arrays: Mapping[str, Any], name: str) -> LowRankUpdate | None:
    if f"{name}/up" not in arrays:
        return None
    return LowRankUpdate(*(arrays[f"{name}/{field}"] for field in LowRankUpdate._fields))


def _read_places(
    places: Iterable[_WeightPlace],
) -> Iterator[tuple[str, PackedWeights | UpdatedWeights]]:
    """Yield packed weights by their names in the graph, each file opened once."""
    by_file = attrgetter("file")
    for file, places_in_file in groupby(sorted(places, key=by_file), key=by_file):
        with np.load(file) as arrays:
            for place in places_in_file:
                packed = PackedWeights(
                    codes=arrays[f"{place.name_in_file}/codes"],
                    factors=arrays[f"{place.name_in_file}/factors"],
                    scale=arrays[f"{place.name_in_file}/scale"],
                )
                if place.update is None:
                    yield place.name, packed
                else:
                    yield place.name, UpdatedWeights(packed, place.update)


def _unpack_weights(file: Path) -> dict[str, NDArray[Any]]:
    """Decompress and unpack the weights of a file, and their scales, in the pool."""
    places = _weight_places(file)
    pending = [submit_to_pool(_unpack_places, places[share::SHARES]) for share in range(SHARES)]
    weights = {}
    for unpacked in pending:
        weights.update(unpacked.result())
    return weights


def _unpack_places(places: list[_WeightPlace]) -> dict[str, NDArray[Any]]:
    weights: dict[str, NDArray[Any]] = {}
    for name, packed in _read_places(places):
        if name == EMBEDDING_TABLE:
            weights[name] = weight_packing.unpack_weights(packed)
            weights[EMBEDDING_SCALE] = packed.scale[:, None]
        else:
            weights[name] = weight_packing.unpack_transposed(packed)
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
