"""What guards every page: access, security headers, the size of forms, and unexpected errors.

Who may use the server, and what other sites may do with it, is in `safety/local_server.py`. A form
must also carry its form token (`Site.read_form`). No note text is logged.
"""

import logging
import traceback
from pathlib import Path

from archqa.safety.local_server import (
    App,
    Headers,
    LocalAccess,
    Message,
    Receive,
    Refusal,
    Scope,
    Send,
    without_token,
)

_log = logging.getLogger("archqa.web")

MAX_BODY_BYTES = 4 * 2**20
"""The largest form: twenty times a note of 2,000 sentences."""

TOO_LONG = "That is more than this form takes."

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
    """An ASGI application around the pages."""

    def __init__(self, app: App, access: LocalAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on to the pages, or refuse it with one line."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refusal = self._access.refusal(scope)
        if refusal is None:
            for name, value in scope["headers"]:
                # A body that is announced as too long is refused before it is read.
                if name == b"content-length" and int(value) > MAX_BODY_BYTES:
                    refusal = Refusal(413, TOO_LONG)
        if refusal is not None:
            await _send_refusal(send, refusal)
        elif self._access.has_token_in_url(scope):
            login = self._access.login(scope, _SECURITY_HEADERS)
            await _send(send, login.status, login.headers, login.body)
        else:
            await self._call_app(without_token(scope), receive, send)

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
            # Log type and position of the error; its message may quote a note.
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(frame.filename).name}:{frame.lineno}"
            _log.error("unexpected %s at %s", type(error).__name__, place)
            if not response_started:
                sentence = "An unexpected error occurred; the server's log says where."
                await _send_refusal(send, Refusal(500, sentence))


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


async def _send_refusal(send: Send, refusal: Refusal) -> None:
    headers: Headers = ((b"content-type", b"text/plain; charset=utf-8"), *_SECURITY_HEADERS)
    if refusal.status == 401:
        headers = (*headers, (b"www-authenticate", b"Bearer"))
    await _send(send, refusal.status, headers, refusal.text.encode())


async def _send(
    send: Send,
    status: int,
    headers: Headers,
    body: bytes,
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})
