"""The routes of reviews: their pages and forms."""

from collections.abc import Callable

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from archqa.errors import InputError, StorageError
from archqa.web.page_renderer import PageRenderer
from archqa.web.responses import html_response, invalid_form, read_form, redirect
from archqa.web.review_pages import ReviewPages


def add_review_routes(app: FastAPI, pages: ReviewPages, renderer: PageRenderer) -> None:
    """Add the review of a run's case, and that of an asked answer."""

    @app.get("/runs/{name}/review/{case_index}")
    def review(name: str, case_index: int, saved: bool = False) -> Response:
        return html_response(pages.review(name, case_index, saved=saved))

    @app.post("/runs/{name}/review/{case_index}")
    async def save_review(request: Request, name: str, case_index: int) -> Response:
        form = await read_form(request, renderer)
        if form is None:
            return invalid_form()
        return _saved(pages, request, form, lambda: pages.save_review(name, case_index, form))

    @app.post("/answers/{job_id}")
    async def save_answer_review(request: Request, job_id: str) -> Response:
        form = await read_form(request, renderer)
        if form is None:
            return invalid_form()
        return _saved(pages, request, form, lambda: pages.save_answer_review(job_id, form))


def _saved(
    pages: ReviewPages, request: Request, form: dict[str, str], save: Callable[[], str | None]
) -> Response:
    """Save a review; where that fails, respond with a page that keeps it (RFC 4918, 11.5)."""
    try:
        return redirect(save())
    except (InputError, StorageError) as error:
        return HTMLResponse(pages.unsaved_review(request.url.path, form, error), 507)
