"""One request and its whole reply: redirects are errors, and bodies are read up to a limit."""

import logging
import threading
import time
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2

from archqa.errors import CallerError
from archqa.fhir.record import FhirError
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES
from archqa.safety.http_replies import (
    ACCEPTED_ENCODING,
    BodyReader,
    ReplyUnreadable,
    is_redirect,
    redirect_error,
)
from archqa.safety.server_urls import check_encrypted, fhir_server_problem, proxy_for

_log = logging.getLogger(__name__)

_OTHER_NAMES = frozenset({"metadata", "$export", ".well-known"})


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
                self._transports[proxy] = httpx2.HTTPTransport(proxy=proxy)
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
) -> httpx2.Response:
    """Send a request, read its reply and log both in a line without ids and search values.

    `options` are those of `httpx2.Client.send`. Raises `Redirected`, `FhirError` for a reply over
    `limit` bytes, and `httpx2.HTTPError`.
    """
    started = time.monotonic()
    status = "failed"
    try:
        reply = _exchange(client, request, limit, options)
        status = str(reply.status_code)
        return reply
    except Exception as error:
        status = type(error).__name__
        raise
    finally:
        milliseconds = 1000 * (time.monotonic() - started)
        what = requested_type(request.url.path)
        _log.info(
            "FHIR request: %s %s, status %s, %.0f ms",
            request.method,
            what,
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
) -> httpx2.Response:
    reply = client.send(request, stream=True, **options)
    try:
        if is_redirect(reply.status_code):
            location = reply.headers.get("location", "")
            raise redirect_error(str(request.url), reply.status_code, location)
        content = _read_body(reply, limit)
    finally:
        reply.close()
    # These two describe the compressed body.
    headers = dict(reply.headers)
    headers.pop("content-encoding", None)
    headers.pop("content-length", None)
    return httpx2.Response(
        reply.status_code,
        headers=headers,
        content=content,
        request=request,
    )


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
