"""Bodies over the wire: read within limits, gzip both ways, and replies in chunks.

Work ends with its request: when a client leaves, or takes nothing for too long, it is stopped.
Source: RFC 9110, sections 8.4 and 12.5.3.
"""

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from archqa.fhir.outcome import FhirError
from archqa.fhir.request_budget import (
    CHUNK_LIMITS,
    RequestBudget,
    RequestCancelled,
    use_budget,
)
from archqa.safety.local_access import Receive, Send

T = TypeVar("T")

_log = logging.getLogger(__name__)

_GZIP = zlib.MAX_WBITS | 16
_LEVEL = 1
"""The fastest: searchsets shrink to a tenth by it, and replies are sent once."""

_MIN_COMPRESSED_BYTES = 1024
"""Shorter replies are not worth it."""

_MAX_BODIES = 8
"""Bodies of the greatest length that are in memory at the same time."""


class UnsupportedCoding(Exception):
    """A body in a coding other than gzip."""


class DamagedBody(Exception):
    """A body that is not one whole gzip stream."""


class BodyTooLong(Exception):
    """A body longer than the limit."""


class TooManyBodies(Exception):
    """The bodies of all requests together would be more than the server keeps in memory."""


def is_worth_compressing(body: bytes) -> bool:
    """Whether a body is long enough."""
    return len(body) >= _MIN_COMPRESSED_BYTES


def compress(body: bytes) -> bytes:
    """Return a body as gzip."""
    return zlib.compress(body, _LEVEL, _GZIP)


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
        length = headers.get("content-length", "")
        is_number = length.isascii() and length.isdecimal() and len(length) < 20
        if is_number and int(length) > self.max_bytes:
            raise BodyTooLong
        coding = headers.get("content-encoding", "").strip().lower()
        if coding not in {"", "identity", "gzip", "x-gzip"}:
            raise UnsupportedCoding
        stream = zlib.decompressobj(_GZIP) if coding.endswith("gzip") else None
        body = bytearray()
        has_more = True
        try:
            while has_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestCancelled
                part = message.get("body", b"")
                if stream is not None:
                    part = _unpack(stream, part, self.max_bytes - len(body) + 1)
                body += part
                self._bytes_in_memory += len(part)
                if len(body) > self.max_bytes:
                    raise BodyTooLong
                if self._bytes_in_memory > _MAX_BODIES * self.max_bytes:
                    raise TooManyBodies
                has_more = message.get("more_body", False)
            if stream is not None and not stream.eof:
                raise DamagedBody
            yield bytes(body)
        finally:
            self._bytes_in_memory -= len(body)


def _unpack(stream: Any, part: bytes, limit: int) -> bytes:
    """Return at most `limit` unpacked bytes. What follows the one stream would be lost."""
    try:
        unpacked: bytes = stream.decompress(part, limit)
    except zlib.error:
        raise DamagedBody from None
    if stream.unused_data:
        raise DamagedBody
    return unpacked


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

    def run() -> T:
        budget.start()
        with use_budget(budget):
            return handle()

    def drop_error(thread: "asyncio.Future[Any]") -> None:
        """Retrieve the error of an abandoned request; asyncio would log it."""
        if not thread.cancelled():
            thread.exception()

    await slots.acquire()
    thread = asyncio.get_running_loop().run_in_executor(None, run)
    thread.add_done_callback(lambda _: slots.release())
    # The next message after the body says that the client has left.
    watch = asyncio.ensure_future(receive())
    either: set[asyncio.Future[Any]] = {thread, watch}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        has_left = watch.done() and watch.result()["type"] == "http.disconnect"
        if has_left and not thread.done():
            raise RequestCancelled
        return await asyncio.shield(thread)
    finally:
        watch.cancel()
        budget.cancel()
        thread.add_done_callback(drop_error)


class ChunkSender:
    """Send the chunks of streamed replies; a chunk has to be made, and taken, within `seconds`.

    Each is made when the client has taken the one before it, so that a page of any size needs the
    memory of one chunk and 8 bytes for a match. The limits of time and of resources hold for each
    chunk. `slots` are those of all requests: a reply has one only while a chunk of it is made.
    """

    def __init__(self, slots: asyncio.Semaphore, seconds: float, wait_seconds: float) -> None:
        self._slots = slots
        self._seconds = seconds
        self._wait_seconds = wait_seconds

    async def send(self, chunks: Iterator[str], receive: Receive, send: Send) -> None:
        """Send all chunks as the body. If that fails the body has no end, as clients notice."""
        try:
            while True:
                budget = RequestBudget(CHUNK_LIMITS.lasting(self._seconds))
                making = run_request(lambda: next(chunks, None), budget, receive, self._slots)
                chunk = await asyncio.wait_for(making, self._wait_seconds)
                if chunk is None:
                    break
                part = {"type": "http.response.body", "body": chunk.encode(), "more_body": True}
                await asyncio.wait_for(send(part), self._seconds)
            await send({"type": "http.response.body", "body": b""})
        except (RequestCancelled, TimeoutError):
            return
        except FhirError as error:
            _log.error("A streamed reply ended early: %s", error)
        except Exception as error:  # Its text may hold something of the record.
            _log.error("A streamed reply ended early: %s", type(error).__name__)
