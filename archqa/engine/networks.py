"""onnxruntime sessions of the engine's networks, and the thread pool that they share."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
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

MAX_CODE = 7
"""The highest code that half a byte holds; codes range from -7 to 7."""
REFERENCE, REFERENCE_MARK = "reference", "#"
"""The array of a packed weight that stands in another file, which it names as `file#name`."""

MAX_SINGLE_THREADED = 262_144
"""Multiplications of a matrix product that OpenBLAS does on the thread that calls it. For more it starts
threads of its own, which wait by spinning: next to the pool's that takes five times the CPU (measured)."""

Floats = NDArray[np.float32]


class PackedWeights(NamedTuple):
    """`codes` (rows, columns / 2), two to a byte; `factors` (rows, blocks); `scale` (rows,)."""

    codes: NDArray[np.uint8]
    factors: NDArray[np.uint8]
    scale: Floats


class LowRankUpdate(NamedTuple):
    """What fine-tuning adds to a matrix: `up` (rows, rank) times `down` (rank, columns).

    Both are integers; a row of their product is scaled by `update_scale` (rows,). `scale` (rows,) is
    that of the sum, whose integers range from -63 to 63.
    """

    up: NDArray[np.int8]
    down: NDArray[np.int8]
    update_scale: Floats
    scale: Floats


class UpdatedWeights(NamedTuple):
    """A packed matrix that stands in another file, and the update of it."""

    base: PackedWeights
    update: LowRankUpdate

    @property
    def scale(self) -> Floats:
        """The scale of each row of the sum, of shape (rows,)."""
        return self.update.scale


class WeightLocation(NamedTuple):
    """The file of a packed weight, its name there, its name in the graph, and its update."""

    file: Path
    name_in_file: str
    name: str
    update: LowRankUpdate | None = None


def weight_locations(file: Path) -> list[WeightLocation]:
    """Return where each weight of a graph is stored, in the order of names."""
    if not file.exists():
        return []
    locations = []
    with np.load(file) as arrays:
        for name in sorted(
            {array_name.rsplit("/", 1)[0] for array_name in arrays.files}
        ):
            location = WeightLocation(file, name, name)
            if f"{name}/{REFERENCE}" in arrays.files:
                reference = str(arrays[f"{name}/{REFERENCE}"])
                other_file, _, name_there = reference.partition(REFERENCE_MARK)
                update = None
                if f"{name}/up" in arrays:
                    update = LowRankUpdate(
                        up=arrays[f"{name}/up"],
                        down=arrays[f"{name}/down"],
                        update_scale=arrays[f"{name}/update_scale"],
                        scale=arrays[f"{name}/scale"],
                    )
                location = WeightLocation(
                    file.parent / other_file, name_there, name, update
                )
            locations.append(location)
    return locations


def read_locations(
    locations: Iterable[WeightLocation],
) -> Iterator[tuple[str, PackedWeights | UpdatedWeights]]:
    """Yield packed weights by their names in the graph; each file is opened once."""
    by_file = attrgetter("file")
    for file, locations_in_file in groupby(sorted(locations, key=by_file), key=by_file):
        with np.load(file) as arrays:
            for location in locations_in_file:
                packed = PackedWeights(
                    codes=arrays[f"{location.name_in_file}/codes"],
                    factors=arrays[f"{location.name_in_file}/factors"],
                    scale=arrays[f"{location.name_in_file}/scale"],
                )
                if location.update is None:
                    yield location.name, packed
                else:
                    yield location.name, UpdatedWeights(packed, location.update)


def unpack_weights(packed: PackedWeights | UpdatedWeights) -> NDArray[np.int8]:
    """Return the integers of every weight, of shape (rows, columns)."""
    if isinstance(packed, UpdatedWeights):
        return np.ascontiguousarray(unpack_transposed(packed).T)
    rows, half_columns = packed.codes.shape
    codes = np.empty((rows, half_columns, 2), dtype=np.int8)
    codes[..., 0] = packed.codes & 15
    codes[..., 1] = packed.codes >> 4
    codes -= MAX_CODE
    blocks = codes.reshape(rows, packed.factors.shape[1], -1)
    blocks *= packed.factors.view(np.int8)[..., None]
    return blocks.reshape(rows, 2 * half_columns)


def unpack_transposed(packed: PackedWeights | UpdatedWeights) -> NDArray[np.int8]:
    """Return `unpack_weights(packed).T` in C order, of shape (columns, rows).

    Faster than to unpack and transpose: the codes are transposed while two share a byte, and each
    step runs over whole rows of the result.
    """
    if isinstance(packed, UpdatedWeights):
        levels = add_update(packed.base, packed.update)
        levels /= packed.update.scale
        return np.rint(levels, out=levels).astype(np.int8)
    rows, half_columns = packed.codes.shape
    transposed_codes = np.ascontiguousarray(packed.codes.T)
    codes = np.empty((half_columns, 2, rows), dtype=np.int8)
    codes[:, 0] = transposed_codes & 15
    codes[:, 1] = transposed_codes >> 4
    codes -= MAX_CODE
    factors = np.ascontiguousarray(packed.factors.T).view(np.int8)
    blocks = codes.reshape(len(factors), -1, rows)
    blocks *= factors[:, None]
    return blocks.reshape(2 * half_columns, rows)


def add_update(base: PackedWeights, update: LowRankUpdate) -> Floats:
    """Return the sum of a matrix and its update, transposed: of shape (columns, rows).

    The integers' product is exact in floats whatever the order of its sums, so that every processor
    gets the same weights.
    """
    down = update.down.T.astype(np.float32)
    up = update.up.T.astype(np.float32)
    product = np.empty((len(down), up.shape[1]), dtype=np.float32)
    block = max(1, MAX_SINGLE_THREADED // up.size)
    for start in range(0, len(down), block):
        np.matmul(down[start : start + block], up, out=product[start : start + block])
    product *= update.update_scale
    product += unpack_transposed(base) * base.scale
    return product


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
    locations = weight_locations(model.with_suffix(".npz"))
    pending = []
    for share in range(SHARES):
        pending.append(submit_to_pool(_unpack_locations, locations[share::SHARES]))
    weights = {}
    for unpacked in pending:
        weights.update(unpacked.result())
    values = list(map(ort.OrtValue.ortvalue_from_numpy, weights.values()))
    options.add_external_initializers(list(weights), values)
    return ort.InferenceSession(
        str(model),
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=SLOW_OPTIMIZERS,
    )


def _unpack_locations(locations: list[WeightLocation]) -> dict[str, NDArray[Any]]:
    weights: dict[str, NDArray[Any]] = {}
    for name, packed in read_locations(locations):
        if name == EMBEDDING_TABLE:
            weights[name] = unpack_weights(packed)
            weights[EMBEDDING_SCALE] = packed.scale[:, None]
        else:
            weights[name] = unpack_transposed(packed)
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
