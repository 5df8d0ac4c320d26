"""Stops work that nobody waits for any more, from another thread.

    stop = Stop()
    with stoppable(stop):  # in the thread that works
        ...
    stop.request()  # in any other thread

Work asks at places that it passes often, and a coroutine is cancelled where it waits.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock


class Stopped(BaseException):
    """The work was stopped. As of an interruption, no handler of errors takes it for a failure."""


class Stop:
    """The wish that one piece of work ends, and who is to be told of it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requested = False
        self._listeners: list[Callable[[], object]] = []

    @property
    def requested(self) -> bool:
        """Whether the work is to end."""
        return self._requested

    def request(self) -> None:
        """Ask the work to end, and call those who listen."""
        with self._lock:
            self._requested = True
            for listener in self._listeners:
                listener()

    def raise_if_requested(self) -> None:
        """Raise `Stopped` if the work is to end."""
        if self._requested:
            raise Stopped

    @contextmanager
    def heard_by(self, listener: Callable[[], object]) -> Iterator[None]:
        """Have `listener` called upon a request; at once where there was one before."""
        with self._lock:
            self._listeners.append(listener)
            if self._requested:
                listener()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)


_current: ContextVar[Stop | None] = ContextVar("stop", default=None)


@contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """Let `stop` end what this thread does, and what it starts in threads with its context."""
    token = _current.set(stop)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def stopped_with_coroutine() -> Iterator[None]:
    """Stop what the block of a coroutine began in threads, if it is cancelled or fails."""
    stop = Stop()
    with stoppable(stop):
        try:
            yield
        except BaseException:
            stop.request()
            raise


def current_stop() -> Stop | None:
    """Return what may stop this work; None if nothing may."""
    return _current.get()
