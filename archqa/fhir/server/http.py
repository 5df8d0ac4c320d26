"""The FHIR server on a port: plain ASGI over `FhirService`, served by uvicorn (extra `server`).

Loopback by default. Anywhere else it wants a bearer token. Bodies, times and concurrent searches are limited.
"""

import asyncio
import hmac
import ipaddress
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from archqa.errors import CallerError, MissingExtra
from archqa.fhir.outcome import operation_outcome
from archqa.fhir.server.service import FhirResponse, FhirService

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MOST_BYTES = 16 * 2**20
"""Of a request's body."""


class FhirApplication:
    """The ASGI application. `path` is where the record lies, such as `/fhir`; requests elsewhere are 404."""

    def __init__(
        self,
        service: FhirService,
        *,
        path: str = "/fhir",
        token: str | None = None,
        most_bytes: int = MOST_BYTES,
        seconds: float = 30.0,
        at_once: int = 4,
    ) -> None:
        self._service = service
        self._path = "/" + path.strip("/")
        self._token = token
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._turns = asyncio.Semaphore(at_once)
        service.record.time_limit = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            try:
                reply = await asyncio.wait_for(self._reply(scope, receive), self._seconds * 4)
            except TimeoutError:
                reply = _problem(503, "too-costly", "The server is busy. Ask again, or for less.")
            except Exception:  # Whatever it is, the client must not see it.
                reply = _problem(500, "exception", "The server failed at this request.")
            await _answer(reply, send, head=scope["method"] == "HEAD")

    async def _reply(self, scope: Scope, receive: Receive) -> FhirResponse:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        if self._token is not None and not _holds(headers.get("authorization", ""), self._token):
            return _problem(401, "login", "A bearer token is needed: Authorization: Bearer …")
        url = self._relative(scope)
        if url is None:
            return _problem(404, "not-found", f"The record lies at {self._path}.")
        body = await self._body(receive)
        if body is None:
            return _problem(413, "too-long", f"A body may have at most {self._most_bytes} bytes.")
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return _problem(400, "structure", "The body is not UTF-8.")
        async with self._turns:
            return await asyncio.to_thread(
                self._service.handle, scope["method"], url, text, headers
            )

    def _relative(self, scope: Scope) -> str | None:
        """What comes after the record's place, slashes made single; None outside of it."""
        raw = scope.get("raw_path") or scope["path"].encode()
        path = "/" + "/".join(part for part in raw.decode("latin-1").split("/") if part)
        query = scope.get("query_string", b"").decode("latin-1")
        rest = path.removeprefix(self._path) if path.startswith(self._path) else None
        if rest is None or (rest and rest[0] not in "/&"):
            return None
        return f"{rest.lstrip('/')}?{query}" if query else rest.lstrip("/")

    async def _body(self, receive: Receive) -> bytes | None:
        """The body; None if it is too long."""
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b""
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > self._most_bytes:
                return None
        return b"".join(parts)


def serve(
    service: FhirService,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    path: str = "/fhir",
    token: str | None = None,
) -> None:
    """Serve until interrupted. Raises `MissingExtra` (uvicorn), `CallerError` (open address without a token)."""
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("The FHIR server (uvicorn)", "server") from None
    if not is_loopback(host) and not token:
        raise CallerError(
            "An address that others can reach needs a token.\nSet one with --token, or leave --host away."
        )
    application = FhirApplication(service, path=path, token=token)
    uvicorn.run(
        application,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        limit_concurrency=256,
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


def _holds(header: str, token: str) -> bool:
    scheme, _, given = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(
        given.strip().encode(), token.encode()
    )


def _problem(status: int, code: str, text: str) -> FhirResponse:
    found = json.dumps(operation_outcome([text], "error", code))
    return FhirResponse(status, found, {"content-type": "application/fhir+json"})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _answer(reply: FhirResponse, send: Send, *, head: bool) -> None:
    body = reply.body.encode()
    headers = {**reply.headers, "content-length": str(len(body)), "cache-control": "no-store"}
    if reply.status == 401:
        headers["www-authenticate"] = "Bearer"
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": pairs})
    await send({"type": "http.response.body", "body": b"" if head else body})
