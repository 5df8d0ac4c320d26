"""The routes of reviews: their pages and forms."""

from collections.abc import Callable
from typing import Annotated, NamedTuple
from urllib.parse import quote

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from archqa.errors import ArchqaError, CallerError, InputError, StorageError
from archqa.review.event import reviewer_name
from archqa.web.asked_reviews import AskedReviews
from archqa.web.page_renderer import PageRenderer
from archqa.web.responses import html_response, invalid_form, read_form, redirect
from archqa.web.review_pages import Notice, ReviewPages
from archqa.web.review_queue import ORDERS, SHOWN, QueueChoice
from archqa.web.review_saving import ReviewSaving, Saved
from archqa.web.reviewer import (
    Reviewer,
    local_url,
    read_reviewer,
    remember_blind,
    remember_name,
    requested_url,
)
from archqa.web.reviews_page import ReviewsPage
from archqa.web.run_pages import review_url, run_url


class Reviewing(NamedTuple):
    """The pages of reviews, by what they show."""

    cases: ReviewPages
    overview: ReviewsPage
    asked: AskedReviews
    saving: ReviewSaving


def _choice(show: str = "", order: str = "", specialty: str = "") -> QueueChoice:
    """The queue that a URL names; what it does not know is left out."""
    return QueueChoice(show if show in SHOWN else "", order if order in ORDERS else "", specialty)


_Choice = Annotated[QueueChoice, Depends(_choice)]


def add_review_routes(app: FastAPI, pages: Reviewing, renderer: PageRenderer) -> None:
    """Add the reviews of a run's cases, their overview, and the reviews of asked answers."""
    _add_reviewer(app, renderer)
    _add_case_pages(app, pages)
    _add_case_forms(app, pages, renderer)
    _add_overview(app, pages, renderer)
    _add_answers(app, pages, renderer)


def _add_reviewer(app: FastAPI, renderer: PageRenderer) -> None:
    @app.get("/reviewer")
    def reviewer(request: Request, then: str = "/") -> Response:
        return _ask_name(renderer, read_reviewer(request), local_url(then), "")

    @app.post("/reviewer")
    async def save_reviewer(request: Request) -> Response:
        form = await read_form(request, renderer)
        if form is None:
            return invalid_form()
        then = local_url(form.get("then", "/"))
        blind = form.get("blind") == "1"
        try:
            name = reviewer_name(form.get("reviewer", ""))
        except CallerError as error:
            typed = Reviewer(form.get("reviewer", ""), blind)
            return _ask_name(renderer, typed, then, str(error), 422)
        response = redirect(then)
        remember_name(response, name)
        remember_blind(response, blind=blind)
        return response


def _add_case_pages(app: FastAPI, pages: Reviewing) -> None:
    @app.get("/runs/{name}/review")
    def first(request: Request, name: str, choice: _Choice) -> Response:
        reviewer = read_reviewer(request)
        url = pages.cases.first(name, reviewer, choice)
        return redirect(url) if url is None or reviewer.name else _to_name(request)

    @app.get("/runs/{name}/review/{case_index}")
    def review(
        request: Request,
        name: str,
        case_index: int,
        choice: _Choice,
        notice: Annotated[Notice, Depends(_notice)],
    ) -> Response:
        reviewer = read_reviewer(request)
        if not pages.cases.exists(name, case_index):
            return html_response(None)
        if not reviewer.name:
            return _to_name(request)
        return html_response(pages.cases.review(name, case_index, reviewer, choice, notice))


def _add_case_forms(app: FastAPI, pages: Reviewing, renderer: PageRenderer) -> None:
    @app.post("/runs/{name}/review/{case_index}")
    async def save(request: Request, name: str, case_index: int, choice: _Choice) -> Response:
        form = await read_form(request, renderer)
        if form is None:
            return invalid_form()
        reviewer = read_reviewer(request)
        action = f"{review_url(name)}/{case_index}{choice.query}"

        def next_url(saved: Saved) -> str | None:
            if form.get("then") != "next":
                return f"{action}{'&' if choice.query else '?'}saved={saved.fields}"
            me = reviewer._replace(name=saved.reviewer)
            return pages.cases.url_after(name, case_index, me, choice, saved.fields)

        return _saved(
            pages.saving,
            action,
            form,
            lambda: pages.cases.save(name, case_index, reviewer, form, action),
            next_url,
        )

    @app.post("/runs/{name}/review/{case_index}/undo")
    async def undo(request: Request, name: str, case_index: int, choice: _Choice) -> Response:
        form = await read_form(request, renderer)
        if form is None:
            return invalid_form()
        fields = pages.cases.undo(name, case_index, read_reviewer(request))
        mark = "&" if choice.query else "?"
        url = f"{review_url(name)}/{case_index}{choice.query}{mark}undone={fields}"
        return redirect(None if fields is None else url)


def _add_overview(app: FastAPI, pages: Reviewing, renderer: PageRenderer) -> None:
    @app.get("/runs/{name}/reviews")
    def overview(request: Request, name: str) -> Response:
        notice = dict(request.query_params)
        return html_response(pages.overview.page(name, read_reviewer(request), notice))

    @app.post("/runs/{name}/reviews/key")
    async def write_key(request: Request, name: str) -> Response:
        if await read_form(request, renderer) is None:
            return invalid_form()
        written = pages.overview.write_key(name)
        if written is None:
            return redirect(None)
        url = f"{run_url(name)}/reviews?key="
        if isinstance(written, str):
            return redirect(f"{url}none#key")
        counts = f"&cases={written.cases}&sentences={written.sentences}"
        return redirect(f"{url}written{counts}&disagreements={written.disagreements}#key")

    @app.post("/runs/{name}/reviews/{case_index}")
    async def adjudicate(request: Request, name: str, case_index: int) -> Response:
        form = await read_form(request, renderer)
        if form is None:
            return invalid_form()
        reviewer = read_reviewer(request)
        action = f"{run_url(name)}/reviews/{case_index}"
        overview = f"{run_url(name)}/reviews"
        return _saved(
            pages.saving,
            action,
            form,
            lambda: pages.overview.adjudicate(name, case_index, reviewer, form, action),
            lambda saved: f"{overview}?adjudicated={saved.fields}#disagreements",
        )


def _add_answers(app: FastAPI, pages: Reviewing, renderer: PageRenderer) -> None:
    @app.post("/answers/{job_id}")
    async def save_answer_review(request: Request, job_id: str) -> Response:
        form = await read_form(request, renderer)
        if form is None:
            return invalid_form()
        name = read_reviewer(request).name
        action = f"/answers/{job_id}"
        return _saved(
            pages.saving,
            action,
            form,
            lambda: pages.asked.save(job_id, name, form, action),
            lambda saved: f"{action}?saved={saved.fields}#review",
        )

    @app.post("/answers/{job_id}/undo")
    async def undo_answer_review(request: Request, job_id: str) -> Response:
        form = await read_form(request, renderer)
        if form is None:
            return invalid_form()
        fields = pages.asked.undo(job_id, read_reviewer(request).name)
        url = f"/answers/{job_id}?undone={fields}#review"
        return redirect(None if fields is None else url)


def _notice(saved: int | None = None, undone: int | None = None, of: int | None = None) -> Notice:
    return Notice(saved, undone, of)


def _ask_name(
    renderer: PageRenderer, reviewer: Reviewer, then: str, message: str, status: int = 200
) -> Response:
    page = renderer.render("reviewer.html.jinja", reviewer=reviewer, then=then, message=message)
    return HTMLResponse(page, status)


def _to_name(request: Request) -> Response:
    """Ask who reviews, and come back to this page."""
    return redirect(f"/reviewer?then={quote(requested_url(request), safe='')}")


def _saved(
    saving: ReviewSaving,
    action: str,
    form: dict[str, str],
    save: Callable[[], Saved | None],
    next_url: Callable[[Saved], str | None],
) -> Response:
    """Save a review and go on; a review that is not saved whole is kept on a page.

    The status says which: 409 for a conflict, 422 for what cannot be said, 507 for the storage
    (RFC 4918, 11.5).
    """
    try:
        saved = save()
    except (InputError, StorageError) as error:
        return _unsaved(saving, action, form, error, 507)
    except CallerError as error:
        return _unsaved(saving, action, form, error, 422)
    if saved is None:
        return redirect(None)
    response = HTMLResponse(saved.page, 409) if saved.page else redirect(next_url(saved))
    remember_name(response, saved.reviewer)
    return response


def _unsaved(
    saving: ReviewSaving, action: str, form: dict[str, str], error: ArchqaError, status: int
) -> Response:
    return HTMLResponse(saving.unsaved(action, form, error), status)
