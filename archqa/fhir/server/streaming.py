"""Send a reply in chunks: each is made when the client has taken the one before it.

A page of any size needs the memory of one chunk and 8 bytes for a match. The limits of time and of
resources hold for each chunk; a client that leaves, or that takes none for so long, ends it.
"""

import asyncio
import logging
from collections.abc import Iterator

from archqa.fhir.outcome import FhirError
from archqa.fhir.request_budget import CHUNK_LIMITS, RequestBudget, RequestCancelled
from archqa.fhir.server.request_limits import run_request
from archqa.safety.local_server import Receive, Send

_log = logging.getLogger(__name__)


class ChunkSender:
    """Send the chunks of streamed replies; a chunk has to be made, and taken, within `seconds`.

    `slots` are those of all requests: a reply has one only while a chunk of it is made.
    """

    def __init__(self, slots: asyncio.Semaphore, seconds: float, wait_seconds: float) -> None:
        self._slots = slots
        self._seconds = seconds
        self._wait_seconds = wait_seconds

    async def send(self, chunks: Iterator[str], receive: Receive, send: Send) -> None:
        """Send all chunks as the body. If that fails the body has no end, as clients notice."""
        try:
            while (chunk := await self._next(chunks, receive)) is not None:
                part = {"type": "http.response.body", "body": chunk.encode(), "more_body": True}
                await asyncio.wait_for(send(part), self._seconds)
            await send({"type": "http.response.body", "body": b""})
        except (RequestCancelled, TimeoutError):
            return
        except FhirError as error:
            _log.error("A streamed reply ended early: %s", error)
        except Exception as error:  # Its text may hold something of the record.
            _log.error("A streamed reply ended early: %s", type(error).__name__)

    async def _next(self, chunks: Iterator[str], receive: Receive) -> str | None:
        limits = CHUNK_LIMITS.lasting(self._seconds)
        budget = RequestBudget(limits)
        making = run_request(lambda: next(chunks, None), budget, receive, self._slots)
        return await asyncio.wait_for(making, self._wait_seconds)
