"""Compressed bodies: gzip, with a bound on what a request may unpack to.

Source: RFC 9110, sections 8.4 and 12.5.3.
"""

import zlib
from typing import Protocol

from archqa.fhir.server.negotiation import qualities

_GZIP = zlib.MAX_WBITS | 16
_LEVEL = 1
"""The fastest: searchsets shrink to a tenth by it, and replies are sent once."""

_MIN_BYTES = 1024
"""Shorter replies are not worth it."""


class UnsupportedCoding(Exception):
    """A body in a coding other than gzip."""


class DamagedBody(Exception):
    """A body that is not one whole gzip stream."""


class Decoder(Protocol):
    """Unpacks parts of a body, at most `limit` bytes of them."""

    def decode(self, part: bytes, limit: int) -> bytes:
        """Return the unpacked bytes. Raises `DamagedBody`."""
        ...

    def finish(self) -> None:
        """Raise `DamagedBody` if the body is not whole."""
        ...


def decoder_of(content_encoding: str) -> Decoder:
    """Return what unpacks a body of that coding. Raises `UnsupportedCoding`."""
    coding = content_encoding.strip().lower()
    if coding in {"", "identity"}:
        return _Plain()
    if coding in {"gzip", "x-gzip"}:
        return _Gzip()
    raise UnsupportedCoding


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether a client takes gzip, and would not rather have the body as it is."""
    weights = qualities(accept_encoding)
    gzip = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


def is_worth_compressing(body: bytes) -> bool:
    """Whether a body is long enough."""
    return len(body) >= _MIN_BYTES


def compress(body: bytes) -> bytes:
    """Return a body as gzip."""
    return zlib.compress(body, _LEVEL, _GZIP)


class _Plain:
    """A body that is not compressed."""

    def decode(self, part: bytes, limit: int) -> bytes:
        return part

    def finish(self) -> None:
        pass


class _Gzip:
    """A body that is one gzip stream: what follows it would be lost."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP)

    def decode(self, part: bytes, limit: int) -> bytes:
        try:
            decoded = self._stream.decompress(part, limit)
        except zlib.error:
            raise DamagedBody from None
        if self._stream.unused_data:
            raise DamagedBody
        return decoded

    def finish(self) -> None:
        if not self._stream.eof:
            raise DamagedBody
