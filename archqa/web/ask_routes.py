"""The routes of questions: the form, the answer, its progress, its files, and its end."""

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse

from archqa.safety.text import without_surrogates
from archqa.web.ask_pages import AskPages
from archqa.web.page_renderer import PageRenderer
from archqa.web.responses import html_response, invalid_form, read_form, redirect
from archqa.web.reviewer import read_reviewer


def add_ask_routes(app: FastAPI, pages: AskPages, renderer: PageRenderer) -> None:
    """Add the asking of a question, and the pages of its answer."""
    _add_forms(app, pages, renderer)
    _add_answers(app, pages)


def _add_forms(app: FastAPI, pages: AskPages, renderer: PageRenderer) -> None:
    @app.post("/ask")
    async def ask(request: Request) -> Response:
        form = await read_form(request, renderer)
        if form is None:
            return invalid_form()
        submitted = pages.submit(form, read_reviewer(request).name)
        if submitted.page:
            return HTMLResponse(without_surrogates(submitted.page), 422)
        return redirect(submitted.url)

    @app.get("/answers/{job_id}/again")
    def again(job_id: str) -> Response:
        return html_response(pages.again(job_id))

    @app.post("/answers/{job_id}/cancel")
    async def cancel(request: Request, job_id: str) -> Response:
        if await read_form(request, renderer) is None:
            return invalid_form()
        return redirect(pages.cancel(job_id))


def _add_answers(app: FastAPI, pages: AskPages) -> None:
    @app.get("/answers/{job_id}")
    def answer(request: Request, job_id: str, saved: int | None = None) -> Response:
        return html_response(pages.answer(job_id, read_reviewer(request).name, saved=saved))

    @app.get("/answers/{job_id}/answer.json")
    def answer_json(job_id: str) -> Response:
        return _file_response(pages.answer_json(job_id), "answer.json", "application/json")

    @app.get("/answers/{job_id}/answer.csv")
    def answer_csv(job_id: str) -> Response:
        return _file_response(pages.answer_csv(job_id), "answer.csv", "text/csv; charset=utf-8")

    @app.get("/answers/{job_id}/events")
    async def answer_events(job_id: str) -> Response:
        events = pages.events(job_id)
        if events is None:
            return html_response(None)
        return StreamingResponse(events, media_type="text/event-stream")


def _file_response(content: str | None, name: str, media_type: str) -> Response:
    """Return a file to be saved; None is one that does not exist."""
    if content is None:
        return html_response(None)
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(without_surrogates(content), media_type=media_type, headers=headers)
