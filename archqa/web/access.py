"""Access control in front of every page: who may see it, and what a browser may do with it.

On loopback, only requests to a loopback host name are answered, so that another site cannot rebind
its own name to this server. Elsewhere a token is required. A form must come from the page's own
origin and carry its form token (`PageHandlers.is_valid_form_token`). No note text is logged.
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
"""The largest form: twenty times a note of 2,000 sentences."""

_COOKIE = "archqa_token"

_CONTENT_SECURITY_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; "
    b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_SECURITY_HEADERS = (
    (b"content-security-policy", _CONTENT_SECURITY_POLICY),
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
        """Pass a request on to the pages, or refuse it with one line."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {}
        for name, value in scope["headers"]:
            headers[name.decode("latin-1")] = value.decode("latin-1")
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            status, text = refusal
            await _send_text(send, status, text)
        elif self._has_token_in_url(scope):
            await _send_text(send, 303, "", *self._login_headers(scope))
        else:
            await self._call_app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Return status and text if the request must be refused."""
        host = headers.get("host", "")
        if self._token is None and _host_name(host) not in LOOPBACK:
            return 421, "This server answers on this machine alone."
        if scope["method"] not in {"GET", "HEAD"} and _is_cross_site(headers, host):
            return 403, "The form was sent from another site."
        if int(headers.get("content-length") or 0) > MAX_BODY_BYTES:
            return 413, "That is more than this form takes."
        if not (self._is_authorized(headers) or self._has_token_in_url(scope)):
            return 401, "A token is needed: open the address that archqa serve printed."
        return None

    def _is_authorized(self, headers: dict[str, str]) -> bool:
        """Whether the request carries the token as a cookie or bearer, or needs none."""
        if self._token is None:
            return True
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        token = bearer if scheme.lower() == "bearer" else _token_cookie(headers.get("cookie", ""))
        return secrets.compare_digest(token.encode(), self._token.encode())

    def _has_token_in_url(self, scope: Scope) -> bool:
        if self._token is None or scope["method"] != "GET":
            return False
        query = parse_qs(scope["query_string"].decode("latin-1"))
        token = query.get("token", [""])[0]
        return secrets.compare_digest(token.encode(), self._token.encode())

    def _login_headers(self, scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
        """Move the token from the URL to a cookie, and redirect to the URL without it."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        query.pop("token", None)
        url = "/" + scope["path"].lstrip("/\\")
        if query:
            url += f"?{urlencode(query, doseq=True)}"
        cookie = f"{_COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        return (
            (b"set-cookie", cookie.encode()),
            (b"location", url.encode("latin-1", "ignore")),
        )

    async def _call_app(self, scope: Scope, receive: Receive, send: Send) -> None:
        response_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal response_started
            if message["type"] == "http.response.start":
                response_started = True
                message["headers"] = [*message.get("headers", ()), *_SECURITY_HEADERS]
            await send(message)

        try:
            await self._app(scope, _limit_body(receive), send_with_headers)
        except Exception as error:
            _log_error(error)
            if not response_started:
                await _send_text(
                    send, 500, "An unexpected error occurred; the server's log says where."
                )


def _log_error(error: Exception) -> None:
    """Log type and position of an error; its message may quote a note."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    file_name = Path(frame.filename).name
    _log.error("unexpected %s at %s:%s", type(error).__name__, file_name, frame.lineno)


def _limit_body(receive: Receive) -> Receive:
    """Disconnect when the body exceeds the limit, whatever its headers say."""
    received_bytes = 0

    async def limited_receive() -> Message:
        nonlocal received_bytes
        message = await receive()
        received_bytes += len(message.get("body", b""))
        if received_bytes > MAX_BODY_BYTES:
            return {"type": "http.disconnect"}
        return message

    return limited_receive


def _is_cross_site(headers: dict[str, str], host: str) -> bool:
    """Whether the browser says that another site sent the request."""
    if headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        return True
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != host


def _host_name(host: str) -> str:
    """Return a Host header without its port; empty if it is malformed."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _token_cookie(header: str) -> str:
    try:
        cookie = SimpleCookie(header).get(_COOKIE)
    except CookieError:
        return ""
    return cookie.value if cookie else ""


async def _send_text(send: Send, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
    content_type = (b"content-type", b"text/plain; charset=utf-8")
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [content_type, *headers, *_SECURITY_HEADERS],
        }
    )
    await send({"type": "http.response.body", "body": text.encode()})
