"""HTTP POST requests to one server: no redirect is followed, no cookie kept, no reply read for ever.

aiohttp is used because a run makes thousands of calls: an httpx client costs four times its
processor time (1.8 ms a call against 0.4), more than all the rest of a call. Proxies are taken from
the environment, as httpx does.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from archqa.errors import ServerUnavailable
from archqa.llm.providers import key_headers
from archqa.safety.base_urls import join_path
from archqa.safety.http_replies import (
    ACCEPTED_ENCODING,
    BodyReader,
    ReplyUnreadable,
    is_redirect,
    redirect_error,
)
from archqa.safety.server_urls import proxy_for, server_identity

if TYPE_CHECKING:
    import aiohttp

MAX_REPLY_BYTES = 16 * 2**20
"""Bytes of one decoded reply; 4,096 tokens with twenty alternatives each are about 8 MiB."""

RetryAfterHook = Callable[[Mapping[str, str]], None]


class HttpResponse(NamedTuple):
    """A response. Header names are case-insensitive."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class TransportError(Exception):
    """There was no complete response; the message says why, without an address."""


class Transport(Protocol):
    """Sends requests to one server."""

    base_url: str

    async def post(self, path: str, body: bytes) -> HttpResponse:
        """Send JSON to a path below the base URL.

        Raises `TransportError`, `Redirected`, and `ServerUnavailable` for a reply without end.
        """
        ...


class HttpTransport:
    """Keeps connections open between requests.

    `on_headers` is called with the headers of each response; `timeout` is in seconds.
    """

    def __init__(
        self,
        base_url: str,
        key: str,
        timeout: float = 180.0,
        on_headers: RetryAfterHook = lambda _: None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._headers = {
            **key_headers(base_url, key),
            "Content-Type": "application/json",
            "Accept-Encoding": ACCEPTED_ENCODING,
        }
        self._timeout = timeout
        self._on_headers = on_headers
        self._session: aiohttp.ClientSession | None = None

    async def post(self, path: str, body: bytes) -> HttpResponse:
        """Send JSON to a path below the base URL.

        Raises `TransportError`, also when the body is not complete within the timeout,
        `Redirected`, and `ServerUnavailable` for a reply that is too long.
        """
        import aiohttp  # Slow to import, and not every command calls a server.

        url = join_path(self.base_url, path)
        request = self._open_session().post(url, data=body, allow_redirects=False)
        try:
            async with request as response:
                if is_redirect(response.status):
                    location = response.headers.get("Location", "")
                    raise redirect_error(url, response.status, location)
                content = await self._read(response)
        except TimeoutError:
            raise TransportError("the server did not answer in time") from None
        except (aiohttp.ClientError, OSError):
            raise TransportError("the connection failed") from None
        self._on_headers(response.headers)
        return HttpResponse(response.status, response.headers, content)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _read(self, response: "aiohttp.ClientResponse") -> bytes:
        parts = []
        try:
            reader = BodyReader(response.headers.get("Content-Encoding", ""), MAX_REPLY_BYTES)
            async for chunk in response.content.iter_any():
                parts.append(reader.decode(chunk))
            reader.finish()
        except ReplyUnreadable as problem:
            raise ServerUnavailable(
                f"A reply of {server_identity(self.base_url)} {problem}.\n"
                "Check --base-url: a model's replies are short."
            ) from None
        return b"".join(parts)

    def _open_session(self) -> "aiohttp.ClientSession":
        """The session, created with the first request: it belongs to the event loop of that moment."""
        if self._session is None:
            import aiohttp

            # No limit of connections: the rate limiter decides how many requests are in flight.
            # The proxy is looked up once: aiohttp's `trust_env` does it for each request, in
            # another thread, at a tenth of a call's cost.
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=self._timeout),
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # `BodyReader` decodes, no further than the limit.
                proxy=proxy_for(self.base_url),
            )
        return self._session
