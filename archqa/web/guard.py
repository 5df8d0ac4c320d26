"""Who may see the pages, and what a browser may do with them. Stands before every page; no note text passes into logs.

On loopback, only requests for a loopback name are answered, so that no page elsewhere can rebind its name to us.
Elsewhere a token is needed. Changes need the page's own origin and its form token (`forged`).
"""

import logging
import secrets
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

_log = logging.getLogger("archqa.web")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
MAX_BODY_BYTES = 4 * 2**20
"""Bytes of one form: a note of 2,000 sentences is a twentieth of it."""
_COOKIE = "archqa_token"
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class AccessMiddleware:
    """An ASGI application around the pages. `token` is None on loopback."""

    def __init__(self, app: App, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it in one line."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        if refusal := self._refusal(scope, headers):
            await _say(send, *refusal)
        elif entered := self._entering(scope):
            await _say(send, 303, "", *entered)
        else:
            await self._pass(scope, receive, send)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if self._token is None and _name(host) not in LOOPBACK:
            return 421, "This server answers on this machine alone."
        if scope["method"] not in {"GET", "HEAD"} and _foreign(headers, host):
            return 403, "The form was sent from another site."
        if int(headers.get("content-length") or 0) > MAX_BODY_BYTES:
            return 413, "That is more than this form takes."
        if self._token is not None and not (self._known(headers) or self._offered(scope)):
            return 401, "A token is needed: open the address that archqa serve printed."
        return None

    def _known(self, headers: dict[str, str]) -> bool:
        """Whether the request carries the token, as a cookie or as a bearer."""
        assert self._token is not None
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = bearer if scheme.lower() == "bearer" else _cookie(headers.get("cookie", ""))
        return secrets.compare_digest(given.encode(), self._token.encode())

    def _offered(self, scope: Scope) -> bool:
        assert self._token is not None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return scope["method"] == "GET" and secrets.compare_digest(
            given.encode(), self._token.encode()
        )

    def _entering(self, scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
        """Where the token stands in the address: a cookie instead, and the address without it."""
        if self._token is None or not self._offered(scope):
            return ()
        query = parse_qs(scope["query_string"].decode("latin-1"))
        query.pop("token", None)
        rest = f"?{urlencode(query, doseq=True)}" if query else ""
        cookie = f"{_COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        path = "/" + scope["path"].lstrip("/\\")
        return (
            (b"set-cookie", cookie.encode()),
            (b"location", f"{path}{rest}".encode("latin-1", "ignore")),
        )

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        try:
            await self._app(scope, _limited(receive), guarded)
        except Exception as unforeseen:
            # Its words may quote a note, so only its kind and place are told.
            place = traceback.extract_tb(unforeseen.__traceback__)[-1]
            _log.error(
                "unforeseen %s at %s:%s",
                type(unforeseen).__name__,
                Path(place.filename).name,
                place.lineno,
            )
            if not begun:
                await _say(send, 500, "Something unforeseen happened; the server's log says where.")


def _limited(receive: Receive) -> Receive:
    """The body, as long as it is not longer than it may be, whatever its headers promise."""
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        return {"type": "http.disconnect"} if taken > MAX_BODY_BYTES else message

    return limited


def _foreign(headers: dict[str, str], host: str) -> bool:
    """Whether a browser says that another site sent the request."""
    if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        return True
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != host


def _name(host: str) -> str:
    """A Host header without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(_COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


async def _say(send: Send, status: int, words: str, *headers: tuple[bytes, bytes]) -> None:
    body = words.encode()
    plain = (b"content-type", b"text/plain; charset=utf-8")
    await send(
        {"type": "http.response.start", "status": status, "headers": [plain, *headers, *_HEADERS]}
    )
    await send({"type": "http.response.body", "body": body})
