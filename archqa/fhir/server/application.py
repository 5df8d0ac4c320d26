"""The FHIR server as an ASGI application over `FhirService`, served by uvicorn (extra `server`).

It listens on loopback by default; any other address needs a token. Who may use it is decided in
`safety/local_access.py`. Request bodies, times and concurrent searches are limited.
"""

import asyncio
import socket
from collections.abc import Iterable
from dataclasses import replace

from archqa.fhir.request_budget import (
    DEFAULT_LIMITS,
    RequestBudget,
    RequestCancelled,
    RequestLimits,
)
from archqa.fhir.server.context import FhirResponse, error_response
from archqa.fhir.server.negotiation import accepts_gzip
from archqa.fhir.server.service import FhirService
from archqa.fhir.server.transfer import (
    BodyReader,
    BodyTooLong,
    ChunkSender,
    DamagedBody,
    TooManyBodies,
    UnsupportedCoding,
    compress,
    is_worth_compressing,
    run_request,
)
from archqa.fhir.values.formats import FHIR_JSON
from archqa.safety.cross_origin import CrossOrigin
from archqa.safety.local_access import (
    Headers,
    LocalAccess,
    Receive,
    Scope,
    Send,
    is_navigation,
    without_token,
)
from archqa.safety.local_server import check_protected, listen, require_uvicorn, run_server
from archqa.safety.server_urls import is_loopback

MAX_REQUEST_BYTES = 16 * 2**20
"""Bytes of a request's body."""

_WAIT_FACTOR = 4
"""A request may wait for its turn: it times out after so many times the limit of a search."""

_ISSUE_CODES = {400: "structure", 401: "login", 403: "forbidden", 421: "forbidden"}
"""FHIR issue types of what is refused before the record is asked."""

_SECURITY_HEADERS: Headers = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


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
            token, on_loopback, "archqa fhir serve", self._cross_origin.origins
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
            response = error_response(refusal.status, _ISSUE_CODES[refusal.status], refusal.text)
        elif is_preflight:
            response = FhirResponse(204, "")
            headers = (*headers, *self._cross_origin.preflight_headers())
        elif has_token_in_url and is_navigation(scope):
            await self._log_in(scope, send)
            return
        else:
            response = await self._respond_in_time(without_token(scope), receive)
        await _send_response(response, scope, send, headers)
        if response.chunks is not None and scope["method"] != "HEAD":
            await self._chunks.send(response.chunks, receive, send)

    async def _log_in(self, scope: Scope, send: Send) -> None:
        login = self._access.login(scope, _SECURITY_HEADERS)
        start = {"type": "http.response.start", "status": login.status, "headers": login.headers}
        await send(start)
        await send({"type": "http.response.body", "body": login.body})

    async def _respond_in_time(self, scope: Scope, receive: Receive) -> FhirResponse:
        try:
            time_limit = self._seconds * _WAIT_FACTOR
            return await asyncio.wait_for(self._respond(scope, receive), time_limit)
        except TimeoutError:
            text = "The server is busy. Ask again, or for less."
            return error_response(503, "throttled", text)
        except RequestCancelled:
            return error_response(503, "throttled", "The client has left.")
        except BodyTooLong:
            limit = f"A body may have at most {self._bodies.max_bytes} bytes."
            return error_response(413, "too-long", limit)
        except TooManyBodies:
            return error_response(503, "throttled", "The server is busy. Ask again later.")
        except UnsupportedCoding:
            text = "Send the body as it is, or as gzip."
            return error_response(415, "not-supported", text, {"accept-encoding": "gzip"})
        except DamagedBody:
            return error_response(400, "structure", "The body is not one whole gzip stream.")
        except Exception:  # The client must not see any details.
            return error_response(500, "exception", "The server failed at this request.")

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
    require_uvicorn("The FHIR server (uvicorn)", "server")
    check_protected(host, has_token=token is not None)
    application = FhirApplication(
        service, path=path, token=token, on_loopback=is_loopback(host), cors=cors
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
    response: FhirResponse, scope: Scope, send: Send, more_headers: Headers
) -> None:
    """Send a reply; of a streamed one, what comes before its chunks."""
    body = response.body.encode()
    headers = {**response.headers, "vary": "Accept, Accept-Encoding"}
    if body:
        headers.setdefault("content-type", FHIR_JSON)
    accepted = _joined_headers(scope).get("accept-encoding", "")
    if is_worth_compressing(body) and accepts_gzip(accepted):
        body = await asyncio.to_thread(compress, body)
        headers["content-encoding"] = "gzip"
    is_whole = response.chunks is None
    if is_whole and response.status not in {204, 304}:  # A 304's would be the resource's length.
        headers["content-length"] = str(len(body))
    if response.status == 401:
        headers["www-authenticate"] = "Bearer"
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    all_headers = [*pairs, *more_headers, *_SECURITY_HEADERS]
    await send({"type": "http.response.start", "status": response.status, "headers": all_headers})
    is_head = scope["method"] == "HEAD"
    if is_whole or is_head:
        await send({"type": "http.response.body", "body": b"" if is_head else body})
