"""One request and its whole reply: below the server's base, within a time, up to a size.

Redirects are errors. JSON is read by `Reply.json` alone, which bounds its depth and its numbers.
"""

import logging
import math
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NamedTuple

import httpx2

from archqa.errors import CallerError
from archqa.fhir.record import FhirError, objects_of
from archqa.fhir.values.json_text import InvalidBody, parse_bounded
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES
from archqa.fhir.values.urls import is_plain_path
from archqa.safety.http_replies import (
    ACCEPTED_ENCODING,
    BodyReader,
    ReplyUnreadable,
    is_redirect,
    redirect_error,
)
from archqa.safety.server_urls import (
    check_encrypted,
    fhir_server_problem,
    is_server_url,
    proxy_for,
)
from archqa.safety.text import without_surrogates

_log = logging.getLogger(__name__)

_OTHER_NAMES = frozenset({"metadata", "$export", ".well-known"})

_MAX_DIAGNOSTICS = 5
"""Diagnostics of a refusal that are shown."""

_exchange_end: ContextVar[float] = ContextVar("exchange_end", default=math.inf)
"""When the exchange of this thread has to be over, on the monotonic clock."""


@contextmanager
def ends_within(seconds: float | None) -> Iterator[None]:
    """Let reads and writes of the block fail after so many seconds, whatever a server sends.

    A timeout of httpx2 begins again with each byte that arrives.
    """
    end = math.inf if seconds is None else time.monotonic() + seconds
    token = _exchange_end.set(end)
    try:
        yield
    finally:
        _exchange_end.reset(token)


def _time_left(timeout: float | None) -> float | None:
    """Return how long the next step may take. Raises `httpx2.ReadTimeout` after the end."""
    end = _exchange_end.get()
    if end == math.inf:
        return timeout
    left = end - time.monotonic()
    if left <= 0:
        raise httpx2.ReadTimeout("The exchange took too long.")
    return left if timeout is None else min(left, timeout)


class _TimedStream:
    """A connection whose steps end with the exchange."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data: bytes = self._stream.read(max_bytes, _time_left(timeout))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _time_left(timeout))

    def start_tls(
        self, *args: Any, timeout: float | None = None, **options: Any
    ) -> Any:
        timeout = _time_left(timeout)
        return _TimedStream(self._stream.start_tls(*args, timeout=timeout, **options))


class _TimedBackend:
    """Opens connections that end with the exchange."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def connect_tcp(self, *, timeout: float | None = None, **options: Any) -> Any:
        timeout = _time_left(timeout)
        return _TimedStream(self._backend.connect_tcp(timeout=timeout, **options))


def _text(content: bytes) -> str:
    """Return a body as text: JSON is UTF-8, whatever a header says (RFC 8259, section 8.1)."""
    return content.decode("utf-8-sig", "replace")


def _read_json(content: bytes) -> Any:
    try:
        return parse_bounded(_text(content))
    except InvalidBody as problem:
        raise FhirError(f"The server's answer {problem}", 502, "structure") from None


def read_issues(content: bytes) -> list[dict[str, Any]]:
    """Return the issues of an OperationOutcome; none of any other body."""
    try:
        return objects_of(_read_json(content), "issue")
    except FhirError:
        return []


class TransientFailure(Exception):
    """A failure that may be gone later: after `retry_after` seconds, if the server says so.

    `status` is 0 where there is no whole reply.
    """

    def __init__(
        self, reason: str, retry_after: float | None = None, status: int = 0
    ) -> None:
        self.retry_after = retry_after
        self.status = status
        super().__init__(reason)


class Reply(NamedTuple):
    """A whole reply."""

    status: int
    headers: httpx2.Headers
    content: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return _text(self.content)

    def json(self) -> Any:
        """Return the value of the body; its decimal numbers keep their text.

        Raises `FhirError` (502) for what is not JSON, is nested too deep, or has a number that is
        too large.
        """
        return _read_json(self.content)

    def diagnostics(self) -> list[str]:
        """Return what the first issues of an OperationOutcome say; nothing of any other body."""
        texts = []
        for issue in read_issues(self.content):
            if issue.get("diagnostics"):
                texts.append(without_surrogates(str(issue["diagnostics"])))
        return texts[:_MAX_DIAGNOSTICS]


class _ProxyTransport(httpx2.BaseTransport):
    """Sends each request by `proxy_for` its address, a token service's too: by the proxy that is said.

    httpx2 reads the environment in another way, and fails on proxies that it cannot use.
    """

    def __init__(self) -> None:
        self._transports: dict[str | None, httpx2.HTTPTransport] = {}
        self._lock = threading.Lock()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        proxy = proxy_for(str(request.url))
        with self._lock:
            if proxy not in self._transports:
                transport = httpx2.HTTPTransport(proxy=proxy)
                pool: Any = transport._pool
                pool._network_backend = _TimedBackend(pool._network_backend)
                self._transports[proxy] = transport
        return self._transports[proxy].handle_request(request)

    def close(self) -> None:
        for transport in self._transports.values():
            transport.close()


def checked_address(base_url: str, *, allow_plain_http: bool) -> str:
    """Return a server's address without the last slash. Raises `CallerError` for one not to use."""
    problem = fhir_server_problem(base_url)
    if problem:
        raise CallerError(f"The FHIR server's address {problem}.")
    check_encrypted(base_url, allow_plain_http=allow_plain_http)
    return base_url.rstrip("/")


def origin(url: str | httpx2.URL) -> tuple[str, bytes, str, int | None]:
    """Return scheme, user, host and port of a URL. Raises `FhirError` for what is none."""
    try:
        url = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError):  # Half a surrogate pair is a `ValueError`.
        raise FhirError("This is not a valid URL.", 400, "structure") from None
    return url.scheme, url.userinfo, url.host, url.port


def request_url(base: str, target: str) -> str:
    """Return the URL of a path below a server's base, or of a link: the only place that joins them.

    Agents and servers write paths and links. Raises `FhirError` for a link to another server, and
    for a path that a server or a proxy on the way might read as one outside of the base.
    """
    target = target.strip()
    url = target if is_server_url(target) else f"{base}/{target.lstrip('/')}"
    if origin(url) != origin(base):
        raise FhirError(
            "The link leads to another address; it was not followed.", 502, "security"
        )
    base_path, path = (
        httpx2.URL(address).raw_path.partition(b"?")[0].decode("ascii").rstrip("/")
        for address in (base, url)
    )
    written = re.split(r"[?#]", target, maxsplit=1)[0]
    has_dots = not {".", ".."}.isdisjoint(written.split("/"))
    is_below = f"{path}/".startswith(f"{base_path}/")
    if has_dots or not is_below or not is_plain_path(path.removeprefix(base_path)):
        problem = (
            "The path is not one of types, ids and operations below the server's base."
        )
        raise FhirError(f"{problem} Nothing was sent.", 404, "not-found")
    return url


def open_http(
    base: str,
    timeout: float,
    transport: httpx2.BaseTransport | None = None,
) -> httpx2.Client:
    """A client that follows no redirect, keeps no cookie, and asks this machine without a proxy."""
    return httpx2.Client(
        base_url=f"{base}/",
        timeout=timeout,
        transport=transport or _ProxyTransport(),
        headers={
            "accept": "application/fhir+json",
            "accept-encoding": ACCEPTED_ENCODING,
        },
        follow_redirects=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    )


def exchange(
    client: httpx2.Client,
    request: httpx2.Request,
    limit: int,
    **options: Any,
) -> Reply:
    """Send a request, read its reply and log both in a line without ids and search values.

    Both together may take as long as the client's timeout. `options` are those of
    `httpx2.Client.send`. Raises `Redirected`, `FhirError` for a reply over `limit` bytes, and
    `TransientFailure` where the exchange fails.
    """
    started = time.monotonic()
    status = "failed"
    try:
        with ends_within(client.timeout.read):
            reply = _exchange(client, request, limit, options)
        status = str(reply.status)
        return reply
    except httpx2.HTTPError as error:
        status = type(error).__name__
        raise TransientFailure(status) from None
    except Exception as error:
        status = type(error).__name__
        raise
    finally:
        milliseconds = 1000 * (time.monotonic() - started)
        _log.info(
            "FHIR request: %s %s, status %s, %.0f ms",
            request.method,
            requested_type(request.url.path),
            status,
            milliseconds,
        )


def requested_type(path: str) -> str:
    """The resource type or operation in a URL's path, `-` if it has none; never an id."""
    for segment in path.split("/"):
        if segment in R4_RESOURCE_TYPES or segment in _OTHER_NAMES:
            return segment
    return "-"


def _exchange(
    client: httpx2.Client, request: httpx2.Request, limit: int, options: dict[str, Any]
) -> Reply:
    reply = client.send(request, stream=True, **options)
    try:
        if is_redirect(reply.status_code):
            location = reply.headers.get("location", "")
            raise redirect_error(str(request.url), reply.status_code, location)
        content = _read_body(reply, limit)
    finally:
        reply.close()
    return Reply(reply.status_code, reply.headers, content)


def _read_body(reply: httpx2.Response, limit: int) -> bytes:
    """The unpacked body.

    The stream is read below httpx2, which unpacks each part whole, however large it becomes.
    """
    assert isinstance(reply.stream, httpx2.SyncByteStream)
    parts = []
    try:
        reader = BodyReader(reply.headers.get("content-encoding", ""), limit)
        for part in reply.stream:
            parts.append(reader.decode(part))
        reader.finish()
    except ReplyUnreadable as problem:
        raise FhirError(
            f"The server's answer {problem}; it was not read.",
            502,
            "too-long",
        ) from None
    return b"".join(parts)
