"""Limits of the HTTP server: how long bodies may be, and that work ends with its request."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from archqa.fhir.request_budget import RequestBudget, RequestCancelled, use_budget
from archqa.fhir.server.body_coding import decoder_of
from archqa.safety.local_server import Receive

T = TypeVar("T")


_MAX_BODIES = 8
"""Bodies of the greatest length that are in memory at the same time."""


class BodyTooLong(Exception):
    """A body longer than the limit."""


class TooManyBodies(Exception):
    """The bodies of all requests together would be more than the server keeps in memory."""


class BodyReader:
    """Read bodies of at most `max_bytes`, and of so many times that together."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._bytes_in_memory = 0

    @asynccontextmanager
    async def read(self, receive: Receive, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Provide the body for as long as its request is answered.

        Raises `BodyTooLong`, where the length is declared before any of it is read,
        `TooManyBodies`, `UnsupportedCoding` and `DamagedBody` for what is not gzip as said, and
        `RequestCancelled` if the client leaves before the end: half a body is no request. The
        limit is that of the unpacked body.
        """
        if _declared_length(headers) > self.max_bytes:
            raise BodyTooLong
        decoder = decoder_of(headers.get("content-encoding", ""))
        body = bytearray()
        try:
            async for part in _parts(receive):
                decoded = decoder.decode(part, self.max_bytes - len(body) + 1)
                body += decoded
                self._bytes_in_memory += len(decoded)
                self._check(len(body))
            decoder.finish()
            yield bytes(body)
        finally:
            self._bytes_in_memory -= len(body)

    def _check(self, size: int) -> None:
        if size > self.max_bytes:
            raise BodyTooLong
        if self._bytes_in_memory > _MAX_BODIES * self.max_bytes:
            raise TooManyBodies


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    has_more = True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestCancelled
        yield message.get("body", b"")
        has_more = message.get("more_body", False)


def _declared_length(headers: Mapping[str, str]) -> int:
    """Return the declared length; 0 if there is none that can be read."""
    text = headers.get("content-length", "")
    is_number = text.isascii() and text.isdecimal() and len(text) < 20
    return int(text) if is_number else 0


async def run_request(
    handle: Callable[[], T],
    budget: RequestBudget,
    receive: Receive,
    slots: asyncio.Semaphore,
) -> T:
    """Run a request in a thread, in one of the slots, and return its reply.

    When the client leaves or the caller gives up, the budget is cancelled, so that the thread stops
    soon; its slot is free only then. Raises `RequestCancelled` if the client has left.
    """
    await slots.acquire()
    thread = asyncio.get_running_loop().run_in_executor(None, _with_budget, handle, budget)
    thread.add_done_callback(lambda _: slots.release())
    watch = asyncio.ensure_future(_wait_for_disconnect(receive))
    either: set[asyncio.Future[Any]] = {thread, watch}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if watch.done() and not thread.done() and watch.result():
            raise RequestCancelled
        return await asyncio.shield(thread)
    finally:
        watch.cancel()
        budget.cancel()
        thread.add_done_callback(_drop_error)


def _with_budget(handle: Callable[[], T], budget: RequestBudget) -> T:
    budget.start()
    with use_budget(budget):
        return handle()


async def _wait_for_disconnect(receive: Receive) -> bool:
    """Return whether the next message after the body says that the client has left."""
    message = await receive()
    return bool(message["type"] == "http.disconnect")


def _drop_error(thread: "asyncio.Future[Any]") -> None:
    """Retrieve the error of an abandoned request; asyncio would log it."""
    if not thread.cancelled():
        thread.exception()
