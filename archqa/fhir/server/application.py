"""The FHIR server as an ASGI application over `FhirService`, served by uvicorn (extra `server`).

It listens on loopback by default; any other address needs a token. Who may use it is decided in
`safety/local_server.py`. Request bodies, times and concurrent searches are limited, and work ends
with its request: when a client leaves, or takes nothing for too long, it is stopped.
Source on gzip, both ways: RFC 9110, sections 8.4 and 12.5.3.
"""

import asyncio
import logging
import socket
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from archqa.fhir.record import FhirError
from archqa.fhir.request_budget import (
    CHUNK_LIMITS,
    DEFAULT_LIMITS,
    RequestBudget,
    RequestCancelled,
    RequestLimits,
    use_budget,
)
from archqa.fhir.search.result_parameters import FHIR_JSON
from archqa.fhir.server.context import FhirResponse, error_response
from archqa.fhir.server.negotiation import accepts_gzip
from archqa.fhir.server.service import FhirService
from archqa.safety.local_server import (
    CrossOrigin,
    Headers,
    LocalAccess,
    Receive,
    Scope,
    Send,
    check_protected,
    is_navigation,
    listen,
    require_uvicorn,
    run_server,
    without_token,
)
from archqa.safety.server_urls import is_loopback

T = TypeVar("T")

_log = logging.getLogger(__name__)

_GZIP = zlib.MAX_WBITS | 16
_LEVEL = 1
"""The fastest: searchsets shrink to a tenth by it, and replies are sent once."""

_MIN_COMPRESSED_BYTES = 1024
"""Shorter replies are not worth it."""

_MAX_BODIES = 8
"""Bodies of the greatest length that are in memory at the same time."""

MAX_REQUEST_BYTES = 16 * 2**20
"""Bytes of a request's body."""

_WAIT_FACTOR = 4
"""A request may wait for its turn: it times out after so many times the limit of a search."""

_ISSUE_CODES = {
    400: "structure",
    401: "login",
    403: "forbidden",
    421: "forbidden",
}
"""FHIR issue types of what is refused before the record is asked."""

_SECURITY_HEADERS: Headers = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


class BodyReader:
    """Read bodies of at most `max_bytes`, and of so many times that together."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._bytes_in_memory = 0

    @asynccontextmanager
    async def read(
        self, receive: Receive, headers: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        """Provide the body for as long as its request is answered.

        Raises `FhirError` for a body that is too long, where the length is declared before any of
        it is read, for too many of them, and for what is not gzip as it says; `RequestCancelled`
        if the client leaves before the end: half a body is no request. The limit is that of the
        unpacked body.
        """
        length = headers.get("content-length", "")
        is_number = length.isascii() and length.isdecimal() and len(length) < 20
        too_long = FhirError(
            f"A body may have at most {self.max_bytes} bytes.", 413, "too-long"
        )
        if is_number and int(length) > self.max_bytes:
            raise too_long
        coding = headers.get("content-encoding", "").strip().lower()
        if coding not in {"", "identity", "gzip", "x-gzip"}:
            text = "Send the body as it is, or as gzip."
            raise FhirError(text, 415, "not-supported")
        stream = zlib.decompressobj(_GZIP) if coding.endswith("gzip") else None
        body = bytearray()
        has_more = True
        try:
            while has_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestCancelled
                part = message.get("body", b"")
                if stream is not None:
                    part = _unpack(stream, part, self.max_bytes - len(body) + 1)
                body += part
                self._bytes_in_memory += len(part)
                if len(body) > self.max_bytes:
                    raise too_long
                if self._bytes_in_memory > _MAX_BODIES * self.max_bytes:
                    text = "The server is busy. Ask again later."
                    raise FhirError(text, 503, "throttled")
                has_more = message.get("more_body", False)
            if stream is not None and not stream.eof:
                raise _damaged_body()
            yield bytes(body)
        finally:
            self._bytes_in_memory -= len(body)


def _unpack(stream: Any, part: bytes, limit: int) -> bytes:
    """Return at most `limit` unpacked bytes. What follows the one stream would be lost."""
    try:
        unpacked: bytes = stream.decompress(part, limit)
    except zlib.error:
        raise _damaged_body() from None
    if stream.unused_data:
        raise _damaged_body()
    return unpacked


def _damaged_body() -> FhirError:
    return FhirError("The body is not one whole gzip stream.", 400, "structure")


async def run_request(
    handle: Callable[[], T],
    budget: RequestBudget,
    receive: Receive,
    slots: asyncio.Semaphore,
) -> T:
    """Run a request in a thread, in one of the slots, and return its reply.

    When the client leaves or the caller gives up, the budget is cancelled, so that the thread stops
    soon; its slot is free only then. Raises `RequestCancelled` if the client has left.
    """

    def run() -> T:
        budget.start()
        with use_budget(budget):
            return handle()

    def drop_error(thread: "asyncio.Future[Any]") -> None:
        """Retrieve the error of an abandoned request; asyncio would log it."""
        if not thread.cancelled():
            thread.exception()

    await slots.acquire()
    thread = asyncio.get_running_loop().run_in_executor(None, run)
    thread.add_done_callback(lambda _: slots.release())
    # The next message after the body says that the client has left.
    watch = asyncio.ensure_future(receive())
    either: set[asyncio.Future[Any]] = {thread, watch}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        has_left = watch.done() and watch.result()["type"] == "http.disconnect"
        if has_left and not thread.done():
            raise RequestCancelled
        return await asyncio.shield(thread)
    finally:
        watch.cancel()
        budget.cancel()
        thread.add_done_callback(drop_error)


class ChunkSender:
    """Send the chunks of streamed replies; a chunk has to be made, and taken, within `seconds`.

    Each is made when the client has taken the one before it, so that a page of any size needs the
    memory of one chunk and 8 bytes for a match. The limits of time and of resources hold for each
    chunk. `slots` are those of all requests: a reply has one only while a chunk of it is made.
    """

    def __init__(
        self, slots: asyncio.Semaphore, seconds: float, wait_seconds: float
    ) -> None:
        self._slots = slots
        self._seconds = seconds
        self._wait_seconds = wait_seconds

    async def send(self, chunks: Iterator[str], receive: Receive, send: Send) -> None:
        """Send all chunks as the body. If that fails the body has no end, as clients notice."""
        try:
            while True:
                budget = RequestBudget(replace(CHUNK_LIMITS, seconds=self._seconds))
                making = run_request(
                    lambda: next(chunks, None),
                    budget,
                    receive,
                    self._slots,
                )
                chunk = await asyncio.wait_for(making, self._wait_seconds)
                if chunk is None:
                    break
                part = {
                    "type": "http.response.body",
                    "body": chunk.encode(),
                    "more_body": True,
                }
                await asyncio.wait_for(send(part), self._seconds)
            await send({"type": "http.response.body", "body": b""})
        except (RequestCancelled, TimeoutError):
            return
        except FhirError as error:
            _log.error("A streamed reply ended early: %s", error)
        except Exception as error:  # Its text may hold something of the record.
            _log.error("A streamed reply ended early: %s", type(error).__name__)


class FhirApplication:
    """The ASGI application. `path` is the location of the record, such as `/fhir`.

    `token` and `on_loopback` say who is answered (`LocalAccess`).

    A request may take `seconds` and what `limits` allow, a batch of searches no more than one;
    `max_concurrent` requests run at the same time. One whose client has left is stopped. Pages of
    the origins in `cors` may read the replies, with the token.
    """

    def __init__(
        self,
        service: FhirService,
        *,
        path: str = "/fhir",
        token: str | None = None,
        on_loopback: bool = False,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        seconds: float = 30.0,
        max_concurrent: int = 4,
        limits: RequestLimits = DEFAULT_LIMITS,
        cors: Iterable[str] = (),
    ) -> None:
        self._service = service
        self._path = "/" + path.strip("/")
        self._cross_origin = CrossOrigin.of(cors)
        self._access = LocalAccess(
            token,
            on_loopback,
            "archqa fhir serve",
            self._cross_origin.origins,
        )
        self._bodies = BodyReader(max_request_bytes)
        self._seconds = seconds
        self._limits = replace(limits, seconds=seconds)
        self._semaphore = asyncio.Semaphore(max_concurrent)
        self._chunks = ChunkSender(self._semaphore, seconds, seconds * _WAIT_FACTOR)
        service.record.time_limit = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] != "http":
            return
        refusal = self._access.refusal(scope)
        has_token_in_url = self._access.has_token_in_url(scope)
        is_preflight = self._cross_origin.is_preflight(scope)
        headers = self._cross_origin.reply_headers(scope)
        if has_token_in_url:
            headers = (*headers, self._access.cookie_header(scope))
        # Browsers send no token with a preflight.
        if refusal is not None and not (refusal.status == 401 and is_preflight):
            response = error_response(
                refusal.status, _ISSUE_CODES[refusal.status], refusal.text
            )
        elif is_preflight:
            response = FhirResponse(204, "")
            headers = (*headers, *self._cross_origin.preflight_headers())
        elif has_token_in_url and is_navigation(scope):
            login = self._access.login(scope, _SECURITY_HEADERS)
            start = {"type": "http.response.start", "status": login.status}
            await send({**start, "headers": login.headers})
            await send({"type": "http.response.body", "body": login.body})
            return
        else:
            response = await self._respond_in_time(without_token(scope), receive)
        await _send_response(
            response,
            scope,
            send,
            headers,
        )
        if response.chunks is not None and scope["method"] != "HEAD":
            await self._chunks.send(response.chunks, receive, send)

    async def _respond_in_time(self, scope: Scope, receive: Receive) -> FhirResponse:
        try:
            time_limit = self._seconds * _WAIT_FACTOR
            return await asyncio.wait_for(self._respond(scope, receive), time_limit)
        except TimeoutError:
            return error_response(
                503, "throttled", "The server is busy. Ask again, or for less."
            )
        except RequestCancelled:
            return error_response(503, "throttled", "The client has left.")
        except FhirError as error:
            headers = {"accept-encoding": "gzip"} if error.status == 415 else {}
            return error_response(error.status, error.code, str(error), headers)
        except Exception:  # The client must not see any details.
            return error_response(
                500, "exception", "The server failed at this request."
            )

    async def _respond(self, scope: Scope, receive: Receive) -> FhirResponse:
        method = scope["method"]
        headers = _joined_headers(scope)
        url = self._relative_url(scope)
        if url is None:
            return error_response(404, "not-found", f"The record is at {self._path}.")
        refusal = self._service.refuse_body(method, url, headers)
        if refusal is not None:
            return refusal
        async with self._bodies.read(receive, headers) as body:
            try:
                text = body.decode()
            except UnicodeDecodeError:
                return error_response(400, "structure", "The body is not UTF-8.")
            return await run_request(
                lambda: self._service.handle(method, url, text, headers),
                RequestBudget(self._limits, may_stream=True),
                receive,
                self._semaphore,
            )

    def _relative_url(self, scope: Scope) -> str | None:
        """Return the URL below the record's path; None outside of it.

        Repeated slashes count as one.
        """
        raw = scope.get("raw_path") or scope["path"].encode()
        path = "/" + "/".join(part for part in raw.decode("latin-1").split("/") if part)
        below = path.removeprefix(self._path)
        if not path.startswith(self._path) or (below and below[0] not in "/&"):
            return None
        url = below.lstrip("/")
        query = scope.get("query_string", b"").decode("latin-1")
        return f"{url}?{query}" if query else url


def serve(
    service: FhirService,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    path: str = "/fhir",
    token: str | None = None,
    listening: socket.socket | None = None,
    cors: Iterable[str] = (),
) -> None:
    """Serve until interrupted, on a socket that `listen` bound to the host, or on a new one.

    Raises `MissingExtra` without uvicorn, `CallerError` for an address other than loopback without
    a token, and for one that cannot be listened on.
    """
    require_uvicorn()
    check_protected(host, has_token=token is not None)
    application = FhirApplication(
        service,
        path=path,
        token=token,
        on_loopback=is_loopback(host),
        cors=cors,
    )
    run_server(application, listening or listen(host, port))


def _joined_headers(scope: Scope) -> dict[str, str]:
    """Return the headers of a request; the values of repeated ones are joined (RFC 9110, 5.3)."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


async def _send_response(
    response: FhirResponse,
    scope: Scope,
    send: Send,
    more_headers: Headers,
) -> None:
    """Send a reply; of a streamed one, what comes before its chunks."""
    body = response.body.encode()
    headers = {**response.headers, "vary": "Accept, Accept-Encoding"}
    if body:
        headers.setdefault("content-type", FHIR_JSON)
    accepted = _joined_headers(scope).get("accept-encoding", "")
    if len(body) >= _MIN_COMPRESSED_BYTES and accepts_gzip(accepted):
        body = await asyncio.to_thread(
            zlib.compress,
            body,
            _LEVEL,
            _GZIP,
        )
        headers["content-encoding"] = "gzip"
    is_whole = response.chunks is None
    if is_whole and response.status not in {
        204,
        304,
    }:  # A 304's would be the resource's length.
        headers["content-length"] = str(len(body))
    if response.status == 401:
        headers["www-authenticate"] = "Bearer"
    pairs = [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in headers.items()
    ]
    all_headers = [*pairs, *more_headers, *_SECURITY_HEADERS]
    await send(
        {
            "type": "http.response.start",
            "status": response.status,
            "headers": all_headers,
        }
    )
    is_head = scope["method"] == "HEAD"
    if is_whole or is_head:
        await send({"type": "http.response.body", "body": b"" if is_head else body})
