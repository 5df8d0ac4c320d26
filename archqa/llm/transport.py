"""One POST to one server, as fast as Python allows: a run makes thousands.

aiohttp speaks here; the layers of the openai package's own client cost four times its processor time (1.8 ms a call
against 0.4), more than everything else a call needs. Proxies are taken from the environment, as there.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    import aiohttp

RetryAfterHook = Callable[[Mapping[str, str]], None]


class HttpResponse(NamedTuple):
    """What came back. Header names are found in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class TransportError(Exception):
    """No whole answer came back; the message says why, without an address."""


class Transport(Protocol):
    """A line to one server."""

    base_url: str

    async def post(self, path: str, body: bytes) -> HttpResponse:
        """Send JSON to a path below the base URL. Raises `TransportError`."""
        ...


class HttpTransport:
    """Keeps connections open between posts; `heed` is told the headers of each answer, `timeout` is in seconds."""

    def __init__(
        self, base_url: str, key: str, timeout: float = 180.0, heed: RetryAfterHook = lambda _: None
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._timeout = timeout
        self._heed = heed
        self._session: aiohttp.ClientSession | None = None

    async def post(self, path: str, body: bytes) -> HttpResponse:
        """Send JSON to a path below the base URL. Raises `TransportError`, also when the body drips past the timeout."""
        import aiohttp  # Slow to import, and not every command asks a server.

        try:
            async with self._open().post(self.base_url + path, data=body) as response:
                answer = HttpResponse(response.status, response.headers, await response.read())
        except TimeoutError:
            raise TransportError("the server did not answer in time") from None
        except (aiohttp.ClientError, OSError):
            raise TransportError("the connection failed") from None
        self._heed(answer.headers)
        return answer

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> "aiohttp.ClientSession":
        """The session, made with the first post: it belongs to the loop that is running then."""
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=self._timeout),
                connector=aiohttp.TCPConnector(
                    limit=0
                ),  # The limiter decides how many are in flight.
                proxy=proxy_for(self.base_url),
            )
        return self._session


def proxy_for(url: str) -> str | None:
    """The HTTP proxy that the environment names for this URL (`https_proxy`, `http_proxy`, `no_proxy`).

    Looked up once: aiohttp's own `trust_env` does it for each request, in another thread, at a tenth of a call's cost.
    """
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme, "")
    if not urlsplit(proxy).scheme.startswith("http") or proxy_bypass(parts.netloc):
        return None
    return proxy
