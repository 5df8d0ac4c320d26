"""What every HTTP client does with a reply: no redirect is followed, and no more than a limit is read."""

import zlib
from typing import Protocol
from urllib.parse import urljoin

from archqa.errors import Redirected
from archqa.safety.base_urls import host_of

ACCEPTED_ENCODING = "gzip"
"""The `Accept-Encoding` of each request: other codings have no bound on what a chunk unpacks to."""

_ZLIB_OR_GZIP = zlib.MAX_WBITS | 32


class ReplyUnreadable(Exception):
    """A body is too long or damaged; the message completes "the reply …"."""


class _Decoder(Protocol):
    """Unpacks chunks of a body, at most `limit` bytes of them."""

    def decode(self, chunk: bytes, limit: int) -> bytes: ...

    def finish(self) -> None: ...


class BodyReader:
    """Decodes the raw chunks of one body; a body over `limit` bytes, decoded, is an error.

    Raises `ReplyUnreadable`.
    """

    def __init__(self, content_encoding: str, limit: int) -> None:
        self._decoder = _decoder(content_encoding)
        self._limit = limit
        self._size = 0

    def decode(self, chunk: bytes) -> bytes:
        """The decoded bytes of the next chunk."""
        decoded = self._decoder.decode(chunk, self._limit - self._size + 1)
        self._size += len(decoded)
        if self._size > self._limit:
            raise ReplyUnreadable(f"is too long (over {_size_text(self._limit)})")
        return decoded

    def finish(self) -> None:
        """Check that the body is whole."""
        self._decoder.finish()


def is_redirect(status: int) -> bool:
    """Whether a status says that the answer is elsewhere; 304 as well, since no reply was kept."""
    return 300 <= status < 400


def redirect_error(url: str, status: int, location: str) -> Redirected:
    """The error for a redirect of `url`. Names hosts alone: paths and queries may hold secrets."""
    origin = host_of(url)
    target = _target_host(url, location)
    return Redirected(
        f"{origin} redirects to {target} (HTTP {status}); redirects are not followed, "
        "since record text and keys would go along.\n"
        "If that is the right address, name it itself as --base-url or --record."
    )


def _target_host(url: str, location: str) -> str:
    if not location:
        return "no address"
    try:
        target = host_of(urljoin(url, location))
    except ValueError:
        return "an invalid address"
    return "another path of its own" if target == host_of(url) else target


class _Plain:
    """A body that is not compressed."""

    def decode(self, chunk: bytes, limit: int) -> bytes:
        return chunk[:limit]

    def finish(self) -> None:
        pass


class _Gzip:
    """A body in one gzip or zlib stream."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_ZLIB_OR_GZIP)
        self._is_empty = True

    def decode(self, chunk: bytes, limit: int) -> bytes:
        self._is_empty = self._is_empty and not chunk
        try:
            return self._stream.decompress(chunk, limit)
        except zlib.error:
            raise ReplyUnreadable("is damaged") from None

    def finish(self) -> None:
        if not self._is_empty and not self._stream.eof:
            raise ReplyUnreadable("is cut off")


def _decoder(content_encoding: str) -> _Decoder:
    encoding = content_encoding.strip().lower()
    if encoding in {"", "identity"}:
        return _Plain()
    if encoding in {"gzip", "x-gzip", "deflate"}:
        return _Gzip()
    raise ReplyUnreadable("is compressed in a way that was not asked for")


def _size_text(size: int) -> str:
    return f"{size // 2**20} MiB" if size >= 2**20 else f"{size} bytes"
