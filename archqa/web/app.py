"""The ASGI application: routes to the pages and forms. `AccessMiddleware` guards all of them."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

from archqa.errors import ArchqaError, InputError, MissingExtra, StorageError
from archqa.safety.local_access import LocalAccess
from archqa.safety.whole_characters import whole_text
from archqa.settings import Settings, load_settings
from archqa.web.access import TOO_LONG, AccessMiddleware
from archqa.web.annotations import Annotations
from archqa.web.library import RunLibrary
from archqa.web.pages import PageHandlers
from archqa.web.question_jobs import QuestionJobs

try:
    import python_multipart  # noqa: F401  # Starlette reads forms with it.
    from fastapi import FastAPI, Query, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import FileResponse, HTMLResponse, Response, StreamingResponse
    from starlette.requests import ClientDisconnect
except ImportError:
    raise MissingExtra("The web part (FastAPI)", "web") from None

_STATIC = Path(__file__).resolve().parent / "static"
_MAX_FORM_FIELDS = 5000
_MAX_FIELD_BYTES = 4 * 2**20


class WebConfig(NamedTuple):
    """What a server shows: folders of runs and, if set, a record whose patients may be asked about.

    `annotations` is the folder for reviews; without it, they are saved next to the runs.
    """

    runs: Sequence[Path]
    record: str | None = None
    key: Path | None = None
    annotations: Path | None = None


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
    library = RunLibrary(config.runs)
    annotations = Annotations(config.annotations or library.base_dir / "annotations")
    pages = PageHandlers(
        library,
        annotations,
        QuestionJobs(),
        settings or load_settings(),
        config.record,
        config.key,
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        pages.question_jobs.close()

    # No interactive documentation: its pages would load scripts from another host.
    app = FastAPI(
        title="archqa", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan
    )
    _add_run_pages(app, pages)
    _add_answer_pages(app, pages)
    _add_forms(app, pages)
    app.add_exception_handler(RequestValidationError, _malformed_request)
    app.add_exception_handler(ClientDisconnect, _incomplete_form)
    _add_error_pages(app, pages)
    return AccessMiddleware(app, LocalAccess(token, on_loopback=on_loopback))


def _add_error_pages(app: FastAPI, pages: PageHandlers) -> None:
    """Show why a page cannot be shown, such as that of a damaged run."""

    async def unreadable(_: Request, error: Exception) -> Response:
        return HTMLResponse(pages.error(str(error)), 422)

    async def storage_failure(_: Request, error: Exception) -> Response:
        reason = error.strerror if isinstance(error, OSError) else None
        message = f"A file cannot be read or written: {reason or 'the storage fails'}."
        return HTMLResponse(pages.error(message), 422)

    app.add_exception_handler(ArchqaError, unreadable)
    app.add_exception_handler(OSError, storage_failure)


def _add_run_pages(app: FastAPI, pages: PageHandlers) -> None:
    @app.get("/static/live.js")
    def script() -> Response:
        return FileResponse(_STATIC / "live.js", media_type="text/javascript")

    @app.get("/")
    def index() -> Response:
        return _html(pages.index())

    @app.get("/compare")
    def compare(
        name_1: Annotated[str, Query(alias="first")] = "",
        name_2: Annotated[str, Query(alias="second")] = "",
    ) -> Response:
        return _html(pages.compare(name_1, name_2))

    @app.get("/runs/{name}")
    def run(name: str) -> Response:
        return _html(pages.run(name))

    @app.get("/runs/{name}/review/{case_index}")
    def review(name: str, case_index: int, saved: bool = False) -> Response:
        return _html(pages.review(name, case_index, saved=saved))


def _add_answer_pages(app: FastAPI, pages: PageHandlers) -> None:
    @app.get("/answers/{job_id}")
    def answer(job_id: str, saved: bool = False) -> Response:
        return _html(pages.answer(job_id, saved=saved))

    @app.get("/answers/{job_id}/events")
    async def answer_events(job_id: str) -> Response:
        events = pages.events(job_id)
        if events is None:
            return _html(None)
        return StreamingResponse(events, media_type="text/event-stream")


def _add_forms(app: FastAPI, pages: PageHandlers) -> None:
    @app.post("/ask")
    async def ask(request: Request) -> Response:
        form = await _read_form(request)
        if not _has_valid_token(pages, form):
            return _invalid_form()
        url = pages.submit_question(form)
        return _redirect(url)

    @app.post("/runs/{name}/review/{case_index}")
    async def save_review(request: Request, name: str, case_index: int) -> Response:
        form = await _read_form(request)
        if not _has_valid_token(pages, form):
            return _invalid_form()
        return _saved(pages, request, form, lambda: pages.save_review(name, case_index, form))

    @app.post("/answers/{job_id}")
    async def save_answer_review(request: Request, job_id: str) -> Response:
        form = await _read_form(request)
        if not _has_valid_token(pages, form):
            return _invalid_form()
        return _saved(pages, request, form, lambda: pages.save_answer_review(job_id, form))


def _saved(
    pages: PageHandlers, request: Request, form: dict[str, str], save: Callable[[], str | None]
) -> Response:
    """Save a review; where that fails, respond with a page that keeps it (RFC 4918, 11.5)."""
    try:
        return _redirect(save())
    except (InputError, StorageError) as error:
        return HTMLResponse(pages.unsaved_review(request.url.path, form, error), 507)


def _has_valid_token(pages: PageHandlers, form: dict[str, str]) -> bool:
    form_token = form.get("form_token", "")
    return pages.is_valid_form_token(form_token)


async def _read_form(request: Request) -> dict[str, str]:
    """Return the text fields of a form; files are refused."""
    form = await request.form(
        max_files=0, max_fields=_MAX_FORM_FIELDS, max_part_size=_MAX_FIELD_BYTES
    )
    return {name: field for name, field in form.items() if isinstance(field, str)}


def _html(page: str | None) -> Response:
    if page is None:
        return HTMLResponse("There is no such page.", 404)
    return HTMLResponse(whole_text(page))


def _redirect(url: str | None) -> Response:
    """Redirect to the page that shows the form's effect."""
    if url is None:
        return _html(None)
    return Response(status_code=303, headers={"location": url})


def _invalid_form() -> Response:
    return HTMLResponse("The form is too old or not from this page; load the page again.", 403)


async def _malformed_request(_: Request, __: Exception) -> Response:
    # FastAPI's own response would repeat the content of the form.
    return HTMLResponse("The form is not as this page sends it.", 400)


async def _incomplete_form(_: Request, __: Exception) -> Response:
    # The client left, which reads no reply, or the form was cut off at its limit.
    return HTMLResponse(TOO_LONG, 413)
