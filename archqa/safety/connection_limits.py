"""Close the connections of a local server on which nothing moves, and keep their number bounded.

uvicorn alone waits for ever for a request that does not end and for a client that reads no reply.
Needs uvicorn: import it where a server starts.
"""

import asyncio
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class ConnectionLimits(NamedTuple):
    """Seconds for each stage of a request, and the number of connections."""

    header_seconds: float = 30.0
    """From a new connection, or from the reply before, to the end of a request's header."""
    body_seconds: float = 120.0
    """From there to the end of its body."""
    stalled_reply_seconds: float = 30.0
    """In which a client takes nothing of a reply that waits for it."""
    connections: int = 256
    """At most so many: then the one that has waited longest for a request gives way."""


class TimedProtocol(H11Protocol):
    """An HTTP connection that ends when its client neither sends nor reads."""

    limits = ConnectionLimits()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._stage: object = None
        self._stage_began = self.loop.time()
        self._arrival_timer: asyncio.TimerHandle | None = None
        self._reply_timer: asyncio.TimerHandle | None = None

    @property
    def awaits_request(self) -> bool:
        """Whether the client is to send something: a header, or the rest of a body."""
        is_unfinished = self.conn.their_state in {h11.IDLE, h11.SEND_BODY}
        return is_unfinished and not self.transport.is_closing()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, and close another one if there are too many."""
        super().connection_made(transport)
        self._watch_arrival()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers."""
        self._stop_arrival_timer()
        self._stop_reply_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._watch_arrival()
        self._watch_reply()

    def on_response_complete(self) -> None:
        """Wait for the next request, and until the client has read the reply."""
        super().on_response_complete()
        self._watch_arrival()
        self._watch_reply()

    def pause_writing(self) -> None:
        """A long reply waits for the client to read."""
        super().pause_writing()
        self._watch_reply()

    def resume_writing(self) -> None:
        """The client has read nearly all of it."""
        super().resume_writing()
        self._stop_reply_timer()

    def _watch_arrival(self) -> None:
        """Limit the time of each stage of a request; a part of it that arrives adds none."""
        stage = self.conn.their_state
        if stage is self._stage:
            return
        self._stage = stage
        self._stage_began = self.loop.time()
        self._stop_arrival_timer()
        if stage is h11.IDLE:
            self._start_arrival_timer(self.limits.header_seconds)
        elif stage is h11.SEND_BODY:
            self._start_arrival_timer(self.limits.body_seconds)

    def _start_arrival_timer(self, seconds: float) -> None:
        self._arrival_timer = self.loop.call_later(seconds, self._close_unfinished)

    def _stop_arrival_timer(self) -> None:
        if self._arrival_timer is not None:
            self._arrival_timer.cancel()
            self._arrival_timer = None

    def _close_unfinished(self) -> None:
        """Close a connection whose request did not end; what was replied is still sent."""
        self.transport.close()
        self._watch_reply()

    def _watch_reply(self) -> None:
        """Begin to look whether the client reads, unless that is under way."""
        if self._reply_timer is None and self._unread_bytes() > 0:
            self._start_reply_timer()

    def _start_reply_timer(self) -> None:
        self._reply_timer = self.loop.call_later(
            self.limits.stalled_reply_seconds, self._check_reply, self._unread_bytes()
        )

    def _check_reply(self, unread_bytes_before: int) -> None:
        """Drop a connection whose client has read nothing since."""
        self._reply_timer = None
        unread_bytes = self._unread_bytes()
        if unread_bytes == 0:
            return
        if unread_bytes >= unread_bytes_before:
            self.transport.abort()
        else:
            self._start_reply_timer()

    def _stop_reply_timer(self) -> None:
        if self._reply_timer is not None:
            self._reply_timer.cancel()
            self._reply_timer = None

    def _unread_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def _make_room(self) -> None:
        """Drop the connection that has waited longest: idle ones keep no client out."""
        if len(self.connections) <= self.limits.connections:
            return
        waiting = []
        for connection in self.connections:
            if isinstance(connection, TimedProtocol) and connection.awaits_request:
                waiting.append(connection)
        longest_waiting = min(waiting, key=lambda connection: connection._stage_began)
        longest_waiting.transport.abort()
