"""The routes of questions: the form, the answer, and its progress."""

from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from archqa.web.ask_pages import AskPages
from archqa.web.page_renderer import PageRenderer
from archqa.web.responses import html_response, invalid_form, read_form, redirect
from archqa.web.reviewer import read_reviewer


def add_ask_routes(app: FastAPI, pages: AskPages, renderer: PageRenderer) -> None:
    """Add the asking of a question, and the page of its answer."""

    @app.post("/ask")
    async def ask(request: Request) -> Response:
        form = await read_form(request, renderer)
        if form is None:
            return invalid_form()
        return redirect(pages.submit(form))

    @app.get("/answers/{job_id}")
    def answer(request: Request, job_id: str, saved: int | None = None) -> Response:
        return html_response(pages.answer(job_id, read_reviewer(request).name, saved=saved))

    @app.get("/answers/{job_id}/events")
    async def answer_events(job_id: str) -> Response:
        events = pages.events(job_id)
        if events is None:
            return html_response(None)
        return StreamingResponse(events, media_type="text/event-stream")
