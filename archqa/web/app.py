"""The ASGI application: its pages and its errors. `AccessMiddleware` guards all of them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from archqa.errors import ArchqaError, MissingExtra
from archqa.report.page import TEMPLATES
from archqa.review.store import ReviewStore
from archqa.safety.local_server import LocalAccess
from archqa.settings import Settings, load_settings
from archqa.web.access import TOO_LONG, AccessMiddleware
from archqa.web.ask_pages import AskPages
from archqa.web.asked_reviews import AskedReviews
from archqa.web.compare_pages import ComparePages
from archqa.web.library import RunLibrary
from archqa.web.page_renderer import PageRenderer
from archqa.web.question_jobs import QuestionJobs
from archqa.web.review_saving import ReviewSaving
from archqa.web.reviewable_runs import ReviewableRuns
from archqa.web.reviewer import AnswersHidden, read_reviewer, requested_url
from archqa.web.run_pages import RunPages, review_url

try:
    import python_multipart  # noqa: F401  # Starlette reads forms with it.
    from fastapi import FastAPI, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import FileResponse, HTMLResponse, Response
    from starlette.requests import ClientDisconnect

    from archqa.web.ask_routes import add_ask_routes
    from archqa.web.review_pages import ReviewPages
    from archqa.web.review_routes import Reviewing, add_review_routes
    from archqa.web.reviews_page import ReviewsPage
    from archqa.web.run_routes import add_compare_routes, add_run_routes
except ImportError:
    raise MissingExtra("The web part (FastAPI)", "web") from None

_STATIC = Path(__file__).resolve().parent / "static"


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
    settings = settings or load_settings()
    library = RunLibrary(config.runs)
    store = ReviewStore(config.annotations or library.base_dir / "annotations")
    renderer = PageRenderer()
    question_jobs = QuestionJobs()
    runs = RunPages(renderer, library, settings, config.record, config.key, store)
    reviews = _reviewing(renderer, ReviewableRuns(library, config.key), store, question_jobs)
    questions = AskPages(renderer, question_jobs, settings, config.record, reviews.asked)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        question_jobs.close()
        runs.cache.close()

    # No interactive documentation: its pages would load scripts from another host.
    app = FastAPI(
        title="archqa", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan
    )
    _add_scripts(app)
    add_run_routes(app, runs)
    add_compare_routes(app, ComparePages(renderer, runs))
    add_review_routes(app, reviews, renderer)
    add_ask_routes(app, questions, renderer)
    _add_error_pages(app, renderer)
    return AccessMiddleware(app, LocalAccess(token, on_loopback=on_loopback))


def _reviewing(
    renderer: PageRenderer, runs: ReviewableRuns, store: ReviewStore, question_jobs: QuestionJobs
) -> "Reviewing":
    """Return the pages of reviews, which share their store."""
    saving = ReviewSaving(renderer, store)
    return Reviewing(
        cases=ReviewPages(renderer, runs, store, saving),
        overview=ReviewsPage(renderer, runs, store, saving),
        asked=AskedReviews(question_jobs, store, saving),
        saving=saving,
    )


def _add_scripts(app: FastAPI) -> None:
    """Serve the scripts of the pages: the names that are there, no path of a request."""
    folders = (_STATIC, TEMPLATES)  # The report carries its script in itself.
    scripts = {path.name: path for folder in folders for path in folder.glob("*.js")}

    @app.get("/static/{name}")
    def script(name: str) -> Response:
        if name not in scripts:
            return HTMLResponse("There is no such script.", 404)
        return FileResponse(scripts[name], media_type="text/javascript")


def _add_error_pages(app: FastAPI, renderer: PageRenderer) -> None:
    """Show why a page cannot be shown, such as that of a damaged run."""

    async def unreadable(_: Request, error: Exception) -> Response:
        return HTMLResponse(renderer.error(str(error)), 422)

    async def storage_failure(_: Request, error: Exception) -> Response:
        reason = error.strerror if isinstance(error, OSError) else None
        message = f"A file cannot be read or written: {reason or 'the storage fails'}."
        return HTMLResponse(renderer.error(message), 422)

    async def hidden(request: Request, _: Exception) -> Response:
        return HTMLResponse(_hidden_page(renderer, request), 403)

    app.add_exception_handler(AnswersHidden, hidden)
    app.add_exception_handler(ArchqaError, unreadable)
    app.add_exception_handler(OSError, storage_failure)
    app.add_exception_handler(RequestValidationError, _malformed_request)
    app.add_exception_handler(ClientDisconnect, _incomplete_form)


def _hidden_page(renderer: PageRenderer, request: Request) -> str:
    """Return the page for whoever reviews blind, in place of one that shows answers."""
    run = request.path_params.get("name", "")
    return renderer.render(
        "hidden.html.jinja",
        reviewer=read_reviewer(request),
        then=requested_url(request),
        review=review_url(run) if run else "",
    )


async def _malformed_request(_: Request, __: Exception) -> Response:
    # FastAPI's own response would repeat the content of the form.
    return HTMLResponse("The form is not as this page sends it.", 400)


async def _incomplete_form(_: Request, __: Exception) -> Response:
    # The client left, which reads no reply, or the form was cut off at its limit.
    return HTMLResponse(TOO_LONG, 413)
