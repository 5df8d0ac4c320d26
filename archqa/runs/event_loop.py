"""Runs asynchronous code from synchronous code."""

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from archqa.core.stopping import Stopped, current_stop

Result = TypeVar("Result")
_INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)


def run_sync(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine and return its result.

    Where a loop is running already, as in a notebook, it runs in a thread of its own. Work that may
    be stopped (`archqa.core.stopping`) is cancelled where it waits; then `Stopped` is raised.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_run, work).result()


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    runner = asyncio.Runner()
    try:
        with _deferred_interruptions():
            # Not `with runner`: that would make the loop before.
            runner.get_loop().set_exception_handler(_report_unless_interrupted)
        return runner.run(_until_stopped(work))
    finally:
        runner.close()
        work.close()


async def _until_stopped(work: Coroutine[Any, Any, Result]) -> Result:
    stop, task, loop = (
        current_stop(),
        asyncio.current_task(),
        asyncio.get_running_loop(),
    )
    if stop is None or task is None:
        return await work
    with stop.heard_by(lambda: loop.call_soon_threadsafe(task.cancel)):
        try:
            return await work
        except asyncio.CancelledError:
            if stop.requested:
                raise Stopped from None
            raise


def _report_unless_interrupted(
    loop: asyncio.AbstractEventLoop, context: dict[str, Any]
) -> None:
    """Say nothing of a task that a second Ctrl-C ended, whose result nobody asks for."""
    if not isinstance(context.get("exception"), KeyboardInterrupt):
        loop.default_exception_handler(context)


@contextmanager
def _deferred_interruptions() -> Iterator[None]:
    """Deliver interruptions afterwards: within a loop's constructor they end in a traceback."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python interrupts the main thread alone.
        return
    arrived: list[int] = []
    handlers = {}
    for number in _INTERRUPTIONS:
        handlers[number] = signal.signal(
            number, lambda number, _: arrived.append(number)
        )
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)
    if arrived:
        signal.raise_signal(arrived[0])
