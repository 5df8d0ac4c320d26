"""What every HTTP client does with a reply: no redirect is followed, and no more than a limit is read."""

import zlib
from urllib.parse import urljoin

from archqa.errors import Redirected
from archqa.safety.server_urls import host_of

ACCEPTED_ENCODING = "gzip"
"""The `Accept-Encoding` of each request: other codings have no bound on what a chunk unpacks to."""

_ZLIB_OR_GZIP = zlib.MAX_WBITS | 32


class ReplyUnreadable(Exception):
    """A body is too long or damaged; the message completes "the reply …"."""


class BodyReader:
    """Decodes the raw chunks of one body, plain or in one gzip or zlib stream; a body over `limit`
    bytes, decoded, is an error.

    Raises `ReplyUnreadable`.
    """

    def __init__(self, content_encoding: str, limit: int) -> None:
        encoding = content_encoding.strip().lower()
        if encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise ReplyUnreadable("is compressed in a way that was not asked for")
        is_plain = encoding in {"", "identity"}
        self._stream = None if is_plain else zlib.decompressobj(_ZLIB_OR_GZIP)
        self._limit = limit
        self._size = 0
        self._is_empty = True

    def decode(self, chunk: bytes) -> bytes:
        """The decoded bytes of the next chunk."""
        self._is_empty = self._is_empty and not chunk
        most = self._limit - self._size + 1
        try:
            decoded = (
                self._stream.decompress(chunk, most) if self._stream else chunk[:most]
            )
        except zlib.error:
            raise ReplyUnreadable("is damaged") from None
        self._size += len(decoded)
        if self._size > self._limit:
            mebibytes = self._limit // 2**20
            limit = f"{mebibytes} MiB" if mebibytes else f"{self._limit} bytes"
            raise ReplyUnreadable(f"is too long (over {limit})")
        return decoded

    def finish(self) -> None:
        """Check that the body is whole."""
        if self._stream and not self._is_empty and not self._stream.eof:
            raise ReplyUnreadable("is cut off")


def is_redirect(status: int) -> bool:
    """Whether a status says that the answer is elsewhere; 304 as well, since no reply was kept."""
    return 300 <= status < 400


def redirect_error(url: str, status: int, location: str) -> Redirected:
    """The error for a redirect of `url`. Names hosts alone: paths and queries may hold secrets."""
    origin = host_of(url)
    target = "no address"
    if location:
        try:
            target = host_of(urljoin(url, location))
        except ValueError:
            target = "an invalid address"
    if target == origin:
        target = "another path of its own"
    return Redirected(
        f"{origin} redirects to {target} (HTTP {status}); redirects are not followed, "
        "since record text and keys would go along.\n"
        "If that is the right address, name it itself as --base-url or --record."
    )
