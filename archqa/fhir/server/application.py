"""The FHIR server as an ASGI application over `FhirService`, served by uvicorn (extra `server`).

It listens on loopback by default; any other address needs a bearer token. Request bodies, times and
concurrent searches are limited.
"""

import asyncio
import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any

from archqa.errors import CallerError, MissingExtra
from archqa.fhir.outcome import operation_outcome
from archqa.fhir.request_budget import (
    DEFAULT_LIMITS,
    RequestBudget,
    RequestCancelled,
    RequestLimits,
)
from archqa.fhir.server.request_limits import (
    BodyReader,
    BodyTooLong,
    Receive,
    TooManyBodies,
    run_request,
)
from archqa.fhir.server.service import FhirResponse, FhirService

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MAX_REQUEST_BYTES = 16 * 2**20
"""Bytes of a request's body."""

_MAX_CONNECTIONS = 256

_WAIT_FACTOR = 4
"""A request may wait for its turn: it times out after so many times the limit of a search."""


class FhirApplication:
    """The ASGI application. `path` is the location of the record, such as `/fhir`.

    A request may take `seconds` and what `limits` allow, a batch of searches no more than one;
    `max_concurrent` requests run at the same time. One whose client has left is stopped.
    """

    def __init__(
        self,
        service: FhirService,
        *,
        path: str = "/fhir",
        token: str | None = None,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        seconds: float = 30.0,
        max_concurrent: int = 4,
        limits: RequestLimits = DEFAULT_LIMITS,
    ) -> None:
        self._service = service
        self._path = "/" + path.strip("/")
        self._token = token
        self._bodies = BodyReader(max_request_bytes)
        self._seconds = seconds
        self._limits = replace(limits, seconds=seconds)
        self._semaphore = asyncio.Semaphore(max_concurrent)
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
        elif scope["type"] == "http":
            response = await self._respond_in_time(scope, receive)
            await _send_response(response, send, head=scope["method"] == "HEAD")

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
        except Exception:  # The client must not see any details.
            return _problem(500, "exception", "The server failed at this request.")

    async def _respond(self, scope: Scope, receive: Receive) -> FhirResponse:
        headers = {}
        for name, value in scope["headers"]:
            headers[name.decode("latin-1").lower()] = value.decode("latin-1")
        if not self._is_authorised(headers.get("authorization", "")):
            return _problem(401, "login", "A bearer token is needed: Authorization: Bearer …")
        url = self._relative_url(scope)
        if url is None:
            return _problem(404, "not-found", f"The record is at {self._path}.")
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
            RequestBudget(self._limits),
            receive,
            self._semaphore,
        )

    def _is_authorised(self, authorization: str) -> bool:
        if self._token is None:
            return True
        scheme, _, token = authorization.partition(" ")
        is_same = hmac.compare_digest(token.strip().encode(), self._token.encode())
        return scheme.lower() == "bearer" and is_same

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
) -> None:
    """Serve until interrupted.

    Raises `MissingExtra` without uvicorn, `CallerError` for an address other than loopback without
    a token.
    """
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("The FHIR server (uvicorn)", "server") from None
    if not is_loopback(host) and not token:
        problem = "An address that others can reach needs a token."
        raise CallerError(f"{problem}\nSet one with --token, or leave --host away.")
    uvicorn.run(
        FhirApplication(service, path=path, token=token),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        limit_concurrency=_MAX_CONNECTIONS,
        lifespan="off",
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _problem(status: int, code: str, text: str) -> FhirResponse:
    body = json.dumps(operation_outcome([text], "error", code))
    return FhirResponse(status, body, {"content-type": "application/fhir+json"})


async def _handle_lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _send_response(response: FhirResponse, send: Send, *, head: bool) -> None:
    body = response.body.encode()
    headers = {**response.headers, "content-length": str(len(body)), "cache-control": "no-store"}
    if response.status == 401:
        headers["www-authenticate"] = "Bearer"
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    start = {"type": "http.response.start", "status": response.status, "headers": pairs}
    await send(start)
    await send({"type": "http.response.body", "body": b"" if head else body})
