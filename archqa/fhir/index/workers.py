"""Digests batches in other processes, so that loading uses every core.

A worker is this module run by the same Python, spoken to through its standard input and output. It is no
multiprocessing pool: that would import the caller's main module again, which a library must not ask for.
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

WORTH_IT = 4 * 2**20
"""Bytes of files, as they lie on disk, below which one process does it all: starting others takes half a second."""

_PROGRAM = "from archqa.fhir.index.workers import work; work()"
_LENGTH = 8


class IndexWorkers:
    """Digests batches, in as many other processes as are asked for; 0: in this one."""

    def __init__(self, workers: int) -> None:
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._all = [_start() for _ in range(workers)]
        self._threads = ThreadPoolExecutor(workers) if workers else None
        self.ahead = 2 * workers
        """How many batches to hand in before the first is waited for."""
        for worker in self._all:
            self._idle.put(worker)

    def submit(self, pieces: Sequence[SourceChunk]) -> "Future[IndexBatch]":
        """The digest of a batch, when it is ready."""
        if self._threads is not None:
            return self._threads.submit(self._ask, pieces)
        done: Future[IndexBatch] = Future()
        done.set_result(build_index_batch(pieces))
        return done

    def _ask(self, pieces: Sequence[SourceChunk]) -> IndexBatch:
        worker = self._idle.get()
        try:
            assert worker.stdin is not None
            assert worker.stdout is not None
            _write(worker.stdin, pieces)
            found = _read(worker.stdout)
        except (OSError, EOFError, ValueError):
            found = None  # It was killed, or could not be started: done here, then.
        finally:
            self._idle.put(worker)
        return found if isinstance(found, IndexBatch) else build_index_batch(pieces)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for worker in self._all:
            worker.kill()
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)
        for worker in self._all:
            worker.communicate()


def worker_count_for(size: int) -> int:
    """How many processes a load of so many bytes is worth."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return min(cores, 4) if size >= WORTH_IT and cores > 1 else 0


def work() -> None:
    """The worker: digests what comes until its input ends."""
    while True:
        try:
            pieces = _read(sys.stdin.buffer)
        except EOFError:
            return
        _write(sys.stdout.buffer, build_index_batch(pieces))


def _start() -> "subprocess.Popen[bytes]":
    home = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )


def _write(stream: IO[bytes], content: object) -> None:
    text = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(text).to_bytes(_LENGTH, "big"))
    stream.write(text)
    stream.flush()


def _read(stream: IO[bytes]) -> Any:
    """What the other side of the pipe wrote: nobody else can reach it."""
    head = stream.read(_LENGTH)
    if len(head) < _LENGTH:
        raise EOFError
    text = stream.read(int.from_bytes(head, "big"))
    return pickle.loads(text)
