"""Runs asynchronous code from synchronous code."""

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")
_INTERRUPTIONS = frozenset({signal.SIGINT, signal.SIGTERM})


def run_sync(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine and return its result.

    Where a loop is running already, as in a notebook, it runs in a thread of its own.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_run, work).result()


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        with asyncio.Runner() as runner:
            with _deferred_interruptions():
                runner.get_loop()
            return runner.run(work)
    finally:
        work.close()


@contextmanager
def _deferred_interruptions() -> Iterator[None]:
    """Deliver interruptions afterwards: within a loop's constructor they end in a traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTIONS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
