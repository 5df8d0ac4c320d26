"""The pages and the form, put together. `create_app` gives an ASGI application; who may see it is `AccessMiddleware`'s affair."""

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from archqa.errors import MissingExtra
from archqa.settings import Settings, load_settings
from archqa.web.annotations import Annotations
from archqa.web.enquiries import QuestionJobs
from archqa.web.guard import AccessMiddleware
from archqa.web.library import RunLibrary
from archqa.web.pages import PageHandlers

try:
    import python_multipart  # noqa: F401  # Starlette reads forms with it.
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import FileResponse, HTMLResponse, Response, StreamingResponse
except ImportError:
    raise MissingExtra("The web part (FastAPI)", "web") from None

_STATIC = Path(__file__).resolve().parent / "static"


class WebConfig(NamedTuple):
    """What a server shows: runs, and, where there is one, the record whose patients may be asked about."""

    runs: Sequence[Path]
    record: str | None = None
    key: Path | None = None
    annotations: Path | None = None


def create_app(
    shown: WebConfig, *, token: str | None = None, settings: Settings | None = None
) -> AccessMiddleware:
    """The server's application. `token` must be given unless it listens on loopback. Raises `InputError`."""
    library = RunLibrary(shown.runs)
    annotations = Annotations(shown.annotations or library.home / "annotations")
    pages = PageHandlers(
        library, annotations, QuestionJobs(), settings or load_settings(), shown.record, shown.key
    )

    @asynccontextmanager
    async def lifetime(_: FastAPI) -> AsyncIterator[None]:
        yield
        pages.question_jobs.close()

    # No interactive documentation: its pages would load scripts from elsewhere.
    app = FastAPI(
        title="archqa", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifetime
    )
    _add_pages(app, pages)
    _add_forms(app, pages)

    @app.exception_handler(RequestValidationError)
    async def refuse(_: Request, __: Exception) -> Response:
        return HTMLResponse(
            "The form is not as this page sends it.", 400
        )  # The default would repeat its content.

    return AccessMiddleware(app, token)


def _add_pages(app: FastAPI, pages: PageHandlers) -> None:
    def add(path: str, made: Callable[..., Any]) -> None:
        app.add_api_route(path, made, response_class=HTMLResponse, methods=["GET"])

    add("/", lambda: _html(pages.index()))
    add("/compare", _named(lambda first, second: _html(pages.compare(first, second))))
    add("/runs/{name}", _one(lambda name: _html(pages.run(name))))

    @app.get("/runs/{name}/review/{place}")
    def review(name: str, place: int, saved: bool = False) -> Response:
        return _html(pages.review_url(name, place, saved=saved))

    @app.get("/answers/{enquiry}")
    def answer(enquiry: str, saved: bool = False) -> Response:
        return _html(pages.answer(enquiry, saved=saved))

    @app.get("/answers/{enquiry}/events")
    async def stages(enquiry: str) -> Response:
        told = pages.events(enquiry)
        return (
            _html(None) if told is None else StreamingResponse(told, media_type="text/event-stream")
        )

    @app.get("/static/live.js")
    def script() -> Response:
        return FileResponse(_STATIC / "live.js", media_type="text/javascript")


def _add_forms(app: FastAPI, pages: PageHandlers) -> None:
    @app.post("/ask")
    async def ask(request: Request) -> Response:
        form = await _form(request)
        if not pages.is_valid_form_token(form.get("form_token", "")):
            return _refused()
        return _go(pages.ask(form))

    @app.post("/runs/{name}/review/{place}")
    async def review(request: Request, name: str, place: int) -> Response:
        form = await _form(request)
        if not pages.is_valid_form_token(form.get("form_token", "")):
            return _refused()
        return _go(pages.save_review(name, place, form))

    @app.post("/answers/{enquiry}")
    async def review_answer(request: Request, enquiry: str) -> Response:
        form = await _form(request)
        if not pages.is_valid_form_token(form.get("form_token", "")):
            return _refused()
        return _go(pages.save_answer_review(enquiry, form))


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(24)


async def _form(request: Request) -> dict[str, str]:
    """The plain fields of a form; files are not taken."""
    form = await request.form(max_files=0, max_fields=5000, max_part_size=4 * 2**20)
    return {name: value for name, value in form.items() if isinstance(value, str)}


def _html(page: str | None) -> Response:
    return HTMLResponse(page) if page is not None else HTMLResponse("There is no such page.", 404)


def _go(place: str | None) -> Response:
    """To the page that shows what the form did."""
    return _html(None) if place is None else Response(status_code=303, headers={"location": place})


def _refused() -> Response:
    return HTMLResponse("The form is too old or not from this page; load the page again.", 403)


def _one(made: Callable[[str], Response]) -> Callable[[str], Response]:
    def page(name: str) -> Response:
        return made(name)

    return page


def _named(made: Callable[[str, str], Response]) -> Callable[..., Response]:
    def page(first: str = "", second: str = "") -> Response:
        return made(first, second)

    return page
