"""What one request to a server may use: time, resources and bytes, over all of its searches.

A request that is over its time, or whose client has left, stops at its next SQL statement, or
within a long one. Without a budget (in process) nothing is limited.
"""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from archqa.fhir.record import FhirError


class RequestCancelled(Exception):
    """Nobody waits for the reply any more: nothing further of the request is done."""


@dataclass(frozen=True)
class RequestLimits:
    """The limits of one request; a batch is one request.

    `page_size` is the largest page of a search, also where a profile has no limit of its own.
    `reply_bytes` counts the UTF-8 of the resources.
    """

    seconds: float = 30.0
    resources: int = 20_000
    reply_bytes: int = 64 * 2**20
    page_size: int = 10_000


DEFAULT_LIMITS = RequestLimits()
"""The limits that a server has unless it is started with others, and that it declares."""


CHUNK_LIMITS = RequestLimits(resources=500, reply_bytes=2**20)
"""The limits of one chunk of a streamed reply; the last resource of a chunk may exceed them."""


class RequestBudget:
    """What is left of the limits of a running request. `cancel` may come from another thread.

    With `may_stream`, a page that is larger than the limits is sent in chunks.
    """

    def __init__(self, limits: RequestLimits, *, may_stream: bool = False) -> None:
        self.limits = limits
        self.may_stream = may_stream
        self.start()
        self._resources_left = limits.resources
        self._bytes_left = limits.reply_bytes
        self._cancelled = threading.Event()

    def start(self) -> None:
        """Begin to count the time."""
        self._end = time.monotonic() + self.limits.seconds

    def cancel(self) -> None:
        """Stop the request: its client has left."""
        self._cancelled.set()

    @property
    def is_over(self) -> bool:
        """Whether the request has to stop."""
        return self._cancelled.is_set() or time.monotonic() > self._end

    @property
    def has_room(self) -> bool:
        """Whether the reply may hold another resource."""
        return self._resources_left > 0 and self._bytes_left > 0

    def check(self) -> None:
        """Raise `RequestCancelled` if the client has left, `FhirError` (503) after the time."""
        if self._cancelled.is_set():
            raise RequestCancelled
        if time.monotonic() > self._end:
            limit = f"The request took longer than {self.limits.seconds:g} seconds."
            raise FhirError(
                f"{limit} Name a patient, a code or a date.", 503, "too-costly"
            )

    def check_room(self) -> None:
        """Raise `FhirError` if the reply is full."""
        if not self.has_room:
            mebibytes = self.limits.reply_bytes / 2**20
            limit = f"A reply holds at most {self.limits.resources} resources and {mebibytes:g} MiB"
            raise FhirError(f"{limit}. Ask for less at once.", 400, "too-costly")

    def spend_resource(self, text: str) -> None:
        """Count a resource of the reply."""
        self._resources_left -= 1
        self._bytes_left -= len(text) if text.isascii() else len(text.encode())


_current: ContextVar[RequestBudget | None] = ContextVar("request_budget", default=None)


def current_budget() -> RequestBudget | None:
    """Return the budget of the request that this thread answers; None in process."""
    return _current.get()


def forbid_streaming() -> None:
    """Let the request that this thread answers hold its limits: its reply is one text."""
    budget = _current.get()
    if budget is not None:
        budget.may_stream = False


def count_resource(text: str) -> None:
    """Count a resource of the reply that this thread makes. Raises `FhirError` if it is full."""
    budget = _current.get()
    if budget is not None:
        budget.check_room()
        budget.spend_resource(text)


def check_budget() -> None:
    """Raise if the request that this thread answers has to stop."""
    budget = _current.get()
    if budget is not None:
        budget.check()


@contextmanager
def use_budget(budget: RequestBudget) -> Iterator[None]:
    """Answer a request of this budget within the block."""
    token = _current.set(budget)
    try:
        yield
    finally:
        _current.reset(token)


class BudgetedConnection(sqlite3.Connection):
    """A connection that looks at a budget, if it has one, before each statement.

    SQLite's own progress handler does not see thousands of short statements.
    """

    budget: RequestBudget | None = None

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """Execute a statement, unless the request has to stop."""
        if self.budget is not None:
            self.budget.check()
        return super().execute(sql, parameters)
