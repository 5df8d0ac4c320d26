"""The ASGI application: its pages and its errors. `AccessMiddleware` guards all of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.requests import ClientDisconnect

from archqa.errors import ArchqaError
from archqa.report.page import TEMPLATES
from archqa.safety.local_server import LocalAccess
from archqa.settings import Settings, load_settings
from archqa.web.access import TOO_LONG, AccessMiddleware
from archqa.web.compare_pages import ComparePages
from archqa.web.question_pages import QuestionPages
from archqa.web.review_form import UnsavedReview
from archqa.web.review_pages import ReviewPages
from archqa.web.reviewer import AnswersHidden, ReviewerPages
from archqa.web.reviews_page import ReviewsPage
from archqa.web.run_pages import RunPages
from archqa.web.site import InvalidForm, NoSuchPage, Site, WebConfig

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
        title="archqa", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan
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

    async def no_such_page(_: Request, __: Exception) -> Response:
        return HTMLResponse("There is no such page.", 404)

    async def invalid_form(_: Request, __: Exception) -> Response:
        sentence = "The form is too old or not from this page; load the page again."
        return HTMLResponse(sentence, 403)

    async def malformed_request(_: Request, __: Exception) -> Response:
        # FastAPI's own response would repeat the content of the form.
        return HTMLResponse("The form is not as this page sends it.", 400)

    async def incomplete_form(_: Request, __: Exception) -> Response:
        # The client left, which reads no reply, or the form was cut off at its limit.
        return HTMLResponse(TOO_LONG, 413)

    async def answers_hidden(request: Request, error: Exception) -> Response:
        assert isinstance(error, AnswersHidden)
        return error.page(site, request)

    async def unsaved_review(_: Request, error: Exception) -> Response:
        assert isinstance(error, UnsavedReview)
        return error.page(site)

    app.add_exception_handler(ArchqaError, unreadable)
    app.add_exception_handler(OSError, storage_failure)
    app.add_exception_handler(NoSuchPage, no_such_page)
    app.add_exception_handler(InvalidForm, invalid_form)
    app.add_exception_handler(RequestValidationError, malformed_request)
    app.add_exception_handler(ClientDisconnect, incomplete_form)
    app.add_exception_handler(AnswersHidden, answers_hidden)
    app.add_exception_handler(UnsavedReview, unsaved_review)
