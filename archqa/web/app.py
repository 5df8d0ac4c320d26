"""The ASGI application: its pages, its errors, and what guards them all.

Who may use the server, and what other sites may do with it, is in `safety/local_server.py`. A form
must also carry its form token (`Site.read_form`). No note text is logged.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.requests import ClientDisconnect

from archqa.errors import ArchqaError, error_position
from archqa.report.page import TEMPLATES
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
from archqa.settings import Settings, load_settings
from archqa.web.question_pages import QuestionPages
from archqa.web.review_form import UnsavedReview
from archqa.web.review_pages import ReviewPages
from archqa.web.reviewer import AnswersHidden, ReviewerPages
from archqa.web.reviews_page import ReviewsPage
from archqa.web.run_pages import ComparePages, RunPages
from archqa.web.site import InvalidForm, NoSuchPage, Site, WebConfig

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
            _log.error(
                "unexpected %s at %s", type(error).__name__, error_position(error)
            )
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
    headers: Headers = (
        (b"content-type", b"text/plain; charset=utf-8"),
        *_SECURITY_HEADERS,
    )
    if refusal.status == 401:
        headers = (*headers, (b"www-authenticate", b"Bearer"))
    await _send(send, refusal.status, headers, refusal.text.encode())


async def _send(
    send: Send,
    status: int,
    headers: Headers,
    body: bytes,
) -> None:
    await send(
        {"type": "http.response.start", "status": status, "headers": list(headers)}
    )
    await send({"type": "http.response.body", "body": body})


__all__ = ["WebConfig", "create_app"]

_STATIC = Path(__file__).resolve().parent / "static"


def create_app(
    config: WebConfig,
    *,
    token: str | None = None,
    on_loopback: bool = False,
    settings: Settings | None = None,
) -> AccessMiddleware:
    """Return the server's application; without a token it answers to this machine's names alone.

    Raises `InputError` if a folder of runs does not exist.
    """
    site = Site(config, settings or load_settings())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        site.close()

    # No interactive documentation: its pages would load scripts from another host.
    app = FastAPI(
        title="archqa",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    # The report carries its script in itself. Only these names are served, no path of a request.
    paths = [*_STATIC.glob("*.js"), *TEMPLATES.glob("*.js")]
    scripts = {path.name: path for path in paths}

    @app.get("/static/{name}")
    def script(name: str) -> Response:
        if name not in scripts:
            return HTMLResponse("There is no such script.", 404)
        return FileResponse(scripts[name], media_type="text/javascript")

    RunPages(site).add_routes(app)
    ComparePages(site).add_routes(app)
    ReviewerPages(site).add_routes(app)
    ReviewPages(site).add_routes(app)
    ReviewsPage(site).add_routes(app)
    QuestionPages(site).add_routes(app)
    _add_error_pages(app, site)
    return AccessMiddleware(app, LocalAccess(token, on_loopback=on_loopback))


def _add_error_pages(app: FastAPI, site: Site) -> None:
    """Show why a page cannot be shown, such as that of a damaged run."""

    async def unreadable(_: Request, error: Exception) -> Response:
        return site.error_page(str(error))

    async def storage_failure(_: Request, error: Exception) -> Response:
        reason = error.strerror if isinstance(error, OSError) else None
        return site.error_page(
            f"A file cannot be read or written: {reason or 'the storage fails'}."
        )

    def fixed_page(text: str, status: int) -> Callable[..., Awaitable[Response]]:
        async def page(_: Request, __: Exception) -> Response:
            return HTMLResponse(text, status)

        return page

    async def answers_hidden(request: Request, error: Exception) -> Response:
        assert isinstance(error, AnswersHidden)
        return error.page(site, request)

    async def unsaved_review(_: Request, error: Exception) -> Response:
        assert isinstance(error, UnsavedReview)
        return error.page(site)

    app.add_exception_handler(ArchqaError, unreadable)
    app.add_exception_handler(OSError, storage_failure)
    for error_type, text, status in (
        (NoSuchPage, "There is no such page.", 404),
        (
            InvalidForm,
            "The form is too old or not from this page; load the page again.",
            403,
        ),
        # FastAPI's own response would repeat the content of the form.
        (RequestValidationError, "The form is not as this page sends it.", 400),
        # The client left, which reads no reply, or the form was cut off at its limit.
        (ClientDisconnect, TOO_LONG, 413),
    ):
        app.add_exception_handler(error_type, fixed_page(text, status))
    app.add_exception_handler(AnswersHidden, answers_hidden)
    app.add_exception_handler(UnsavedReview, unsaved_review)
