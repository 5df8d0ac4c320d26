"""HTTP/1.1 over asyncio, as little as a fake server needs: whole requests in, connections kept alive.

An answer also says in which manner it is sent, since half of what goes wrong with servers goes wrong here.
"""

import asyncio
import re
import socket
import struct
from collections.abc import Awaitable, Callable
from enum import StrEnum
from http import HTTPStatus
from typing import NamedTuple

_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)


class DeliveryMode(StrEnum):
    """How the bytes of an answer go out."""

    WHOLE = "whole"
    RESET = "reset"
    """The connection is reset instead."""
    SILENT = "silent"
    """Nothing comes, and the connection stays open."""
    DRIP = "drip"
    """Byte by byte, so that no single read waits long."""
    CUT = "cut"
    """Half of what the header promises, then the end."""


class HttpRequest(NamedTuple):
    """A whole request; names of headers are in lower case."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str] = {}


class HttpResponse(NamedTuple):
    """What is sent back."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    delivery: DeliveryMode = DeliveryMode.WHOLE

    def to_bytes(self) -> bytes:
        """Head and body."""
        lines = [
            f"HTTP/1.1 {self.status} {_phrase(self.status)}",
            f"content-type: {self.content_type}",
            f"content-length: {len(self.body)}",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]


class Connection(asyncio.Protocol):
    """One client's connection: answers its requests one after the other."""

    def __init__(self, handle: Handler, drip: float) -> None:
        self._handle = handle
        self._drip = drip
        self._buffer = bytearray()
        self._transport: asyncio.Transport
        self._working: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        request = self._whole_request()
        if request is not None:
            self._working = asyncio.get_running_loop().create_task(self._serve(request))

    def connection_lost(self, error: Exception | None) -> None:
        if self._working is not None:
            self._working.cancel()

    def _whole_request(self) -> HttpRequest | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self._buffer[:end])
        length = _LENGTH.search(head)
        whole = end + 4 + (int(length.group(1)) if length else 0)
        if len(self._buffer) < whole:
            return None
        method, path, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        body = bytes(self._buffer[end + 4 : whole])
        del self._buffer[:whole]
        return HttpRequest(method, path, body, _headers(head))

    async def _serve(self, request: HttpRequest) -> None:
        answer = await self._handle(request)
        await _MANNERS[answer.delivery](self._transport, answer.to_bytes(), self._drip)


def _headers(head: bytes) -> dict[str, str]:
    headers = {}
    for line in head.decode("latin-1").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return headers


async def _whole(transport: asyncio.Transport, content: bytes, drip: float) -> None:
    transport.write(content)


async def _reset(transport: asyncio.Transport, content: bytes, drip: float) -> None:
    """A linger time of zero makes the close a reset."""
    transport.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    transport.abort()


async def _silent(transport: asyncio.Transport, content: bytes, drip: float) -> None:
    """The client must lose its patience."""


async def _dripping(transport: asyncio.Transport, content: bytes, drip: float) -> None:
    for place in range(len(content)):
        transport.write(content[place : place + 1])
        await asyncio.sleep(drip)


async def _cut(transport: asyncio.Transport, content: bytes, drip: float) -> None:
    head, _, body = content.partition(b"\r\n\r\n")
    transport.write(head + b"\r\n\r\n" + body[: len(body) // 2])
    transport.close()


_MANNERS: dict[
    DeliveryMode, Callable[[asyncio.Transport, bytes, float], Awaitable[None]]
] = {
    DeliveryMode.WHOLE: _whole,
    DeliveryMode.RESET: _reset,
    DeliveryMode.SILENT: _silent,
    DeliveryMode.DRIP: _dripping,
    DeliveryMode.CUT: _cut,
}


def _phrase(status: int) -> str:
    return (
        HTTPStatus(status).phrase
        if status in HTTPStatus._value2member_map_
        else "Overloaded"
    )
