"""The FHIR server as an ASGI application over `FhirService`, served by uvicorn (extra `server`).

It listens on loopback by default; any other address needs a token. Who may use it is decided in
`safety/local_server.py`. Request bodies, times and concurrent searches are limited.
"""

import asyncio
import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import replace

from archqa.fhir.outcome import operation_outcome
from archqa.fhir.request_budget import (
    DEFAULT_LIMITS,
    RequestBudget,
    RequestCancelled,
    RequestLimits,
)
from archqa.fhir.server.body_coding import (
    DamagedBody,
    UnsupportedCoding,
    accepts_gzip,
    compress,
    is_worth_compressing,
)
from archqa.fhir.server.content_types import refusal_of_content_type
from archqa.fhir.server.file_replies import send_file
from archqa.fhir.server.methods import answers
from archqa.fhir.server.request_limits import (
    BodyReader,
    BodyTooLong,
    TooManyBodies,
    run_request,
)
from archqa.fhir.server.response import FhirResponse
from archqa.fhir.server.service import FhirService
from archqa.fhir.server.smart_configuration import SMART_PATH
from archqa.fhir.server.streaming import ChunkSender
from archqa.safety.local_server import (
    CrossOrigin,
    Headers,
    LocalAccess,
    Receive,
    Scope,
    Send,
    check_protected,
    header_values,
    is_navigation,
    listen,
    require_uvicorn,
    run_server,
    without_token,
)
from archqa.safety.server_urls import is_loopback

MAX_REQUEST_BYTES = 16 * 2**20
"""Bytes of a request's body."""

_WAIT_FACTOR = 4
"""A request may wait for its turn: it times out after so many times the limit of a search."""


_ISSUE_CODES = {
    400: "structure",
    401: "login",
    403: "forbidden",
    415: "not-supported",
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

    async def __call__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer one connection."""
        if scope["type"] == "lifespan":
            await _handle_lifespan(receive, send)
            self._service.exports.close()
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._access.refusal(scope)
        has_token_in_url = self._access.has_token_in_url(scope)
        headers = self._cross_origin.reply_headers(scope)
        if has_token_in_url:
            headers = (*headers, self._access.cookie_header(scope))
        if refusal is not None and not (refusal.status == 401 and self._is_public(scope)):
            response = _problem(refusal.status, _ISSUE_CODES[refusal.status], refusal.text)
        elif self._cross_origin.is_preflight(scope):
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
        if response.file is not None and scope["method"] != "HEAD":
            await send_file(response.file, receive, send)

    def _is_public(self, scope: Scope) -> bool:
        """Whether a request needs no token: browsers and SMART apps send none with these two."""
        url = self._relative_url(without_token(scope)) or ""
        return url.partition("?")[0] == SMART_PATH or self._cross_origin.is_preflight(scope)

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
            return _problem(503, "throttled", "The server is busy. Ask again, or for less.")
        except RequestCancelled:
            return _problem(503, "throttled", "The client has left.")
        except BodyTooLong:
            limit = f"A body may have at most {self._bodies.max_bytes} bytes."
            return _problem(413, "too-long", limit)
        except TooManyBodies:
            return _problem(503, "throttled", "The server is busy. Ask again later.")
        except UnsupportedCoding:
            problem = _problem(415, "not-supported", "Send the body as it is, or as gzip.")
            return replace(problem, headers={**problem.headers, "accept-encoding": "gzip"})
        except DamagedBody:
            return _problem(400, "structure", "The body is not one whole gzip stream.")
        except Exception:  # The client must not see any details.
            return _problem(500, "exception", "The server failed at this request.")

    async def _respond(self, scope: Scope, receive: Receive) -> FhirResponse:
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        url = self._relative_url(scope)
        if url is None:
            return _problem(404, "not-found", f"The record is at {self._path}.")
        refusal = refusal_of_content_type(scope) if answers(scope["method"], url) else None
        if refusal is not None:
            return _problem(refusal.status, _ISSUE_CODES[refusal.status], refusal.text)
        async with self._bodies.read(receive, headers) as body:
            return await self._handle(scope["method"], url, body, headers, receive)

    async def _handle(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str], receive: Receive
    ) -> FhirResponse:
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return _problem(400, "structure", "The body is not UTF-8.")
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
        if not path.startswith(self._path):
            return None
        rest = path.removeprefix(self._path)
        if rest and rest[0] not in "/&":
            return None
        url = rest.lstrip("/")
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
    run_server(application, listening or listen(host, port), lifespan=True)


def _problem(status: int, code: str, text: str) -> FhirResponse:
    body = json.dumps(operation_outcome([text], "error", code))
    return FhirResponse(status, body, {"content-type": "application/fhir+json"})


async def _handle_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _send_response(
    response: FhirResponse, scope: Scope, send: Send, more_headers: Headers
) -> None:
    body = response.body.encode()
    part = response.file
    headers = {**response.headers, "vary": "Accept, Accept-Encoding"}
    accepted = ",".join(header_values(scope, b"accept-encoding"))
    if is_worth_compressing(body) and accepts_gzip(accepted):
        body = await asyncio.to_thread(compress, body)
        headers["content-encoding"] = "gzip"
    is_whole = response.chunks is None and part is None
    if part is not None:
        headers["content-length"] = str(part.end - part.start)
    elif is_whole and response.status not in {204, 304}:  # A 304's would be the resource's length.
        headers["content-length"] = str(len(body))
    if response.status == 401:
        headers["www-authenticate"] = "Bearer"
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    all_headers = [*pairs, *more_headers, *_SECURITY_HEADERS]
    start = {"type": "http.response.start", "status": response.status, "headers": all_headers}
    await send(start)
    is_head = scope["method"] == "HEAD"
    if is_whole or is_head:
        await send({"type": "http.response.body", "body": b"" if is_head else body})
