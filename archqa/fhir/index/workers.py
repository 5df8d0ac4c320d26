"""Build index batches in other processes, so that loading uses several cores.

A worker is this module run by the same Python, with pickled messages over its standard input and
output. `multiprocessing` would import the caller's main module again, which a library must not
require.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, Self

from archqa.fhir.index.batch import IndexBatch, build_index_batch
from archqa.fhir.index.sources import SourceChunk

_MIN_BYTES_FOR_WORKERS = 4 * 2**20
"""Bytes of files on disk below which workers do not pay: starting them takes half a second."""

_MAX_WORKERS = 4

_PROGRAM = "from archqa.fhir.index.workers import work; work()"
_LENGTH_BYTES = 8
"""Bytes of the length before each message."""


class IndexWorkers:
    """Build index batches in a number of other processes; with 0, in this one."""

    def __init__(self, workers: int) -> None:
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._processes = [_start() for _ in range(workers)]
        self._threads = ThreadPoolExecutor(workers) if workers else None
        self.max_pending = 2 * workers
        """Batches to submit before waiting for the first result."""
        for process in self._processes:
            self._idle.put(process)

    def submit(self, chunks: Sequence[SourceChunk]) -> "Future[IndexBatch]":
        """Return the future batch of these chunks."""
        if self._threads is not None:
            return self._threads.submit(self._build, chunks)
        future: Future[IndexBatch] = Future()
        future.set_result(build_index_batch(chunks))
        return future

    def _build(self, chunks: Sequence[SourceChunk]) -> IndexBatch:
        process = self._idle.get()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            _write(process.stdin, chunks)
            batch = _read(process.stdout)
        except (OSError, EOFError, ValueError):
            batch = None
        finally:
            self._idle.put(process)
        if isinstance(batch, IndexBatch):
            return batch
        # The worker was killed, or could not be started: build the batch here.
        return build_index_batch(chunks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.kill()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.communicate()


def worker_count_for(size: int) -> int:
    """Return the number of workers for a load of so many bytes."""
    cores = _core_count()
    if size < _MIN_BYTES_FOR_WORKERS or cores == 1:
        return 0
    return min(cores, _MAX_WORKERS)


def _core_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def work() -> None:
    """Run a worker: build batches until the input ends."""
    while True:
        try:
            chunks = _read(sys.stdin.buffer)
        except EOFError:
            return
        _write(sys.stdout.buffer, build_index_batch(chunks))


def _start() -> "subprocess.Popen[bytes]":
    paths = [str(Path(__file__).resolve().parents[3])]
    if os.environ.get("PYTHONPATH"):
        paths.append(os.environ["PYTHONPATH"])
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )


def _write(stream: IO[bytes], message: object) -> None:
    content = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(content).to_bytes(_LENGTH_BYTES, "big"))
    stream.write(content)
    stream.flush()


def _read(stream: IO[bytes]) -> Any:
    """Read a message.

    Unpickling is safe: only the process at the other end can write to the pipe.
    """
    length = stream.read(_LENGTH_BYTES)
    if len(length) < _LENGTH_BYTES:
        raise EOFError
    return pickle.loads(stream.read(int.from_bytes(length, "big")))
