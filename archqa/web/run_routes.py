"""The routes of the pages of runs."""

from typing import Annotated

from fastapi import FastAPI, Query
from fastapi.responses import Response

from archqa.web.responses import html_response
from archqa.web.run_pages import RunPages


def add_run_routes(app: FastAPI, pages: RunPages) -> None:
    """Add the list of runs, the page of one, and that of two."""

    @app.get("/")
    def index() -> Response:
        return html_response(pages.index())

    @app.get("/compare")
    def compare(
        name_1: Annotated[str, Query(alias="first")] = "",
        name_2: Annotated[str, Query(alias="second")] = "",
    ) -> Response:
        return html_response(pages.compare(name_1, name_2))

    @app.get("/runs/{name}")
    def run(name: str) -> Response:
        return html_response(pages.run(name))

    @app.get("/runs/{name}/cases/{case_index}/trace")
    def trace(name: str, case_index: int) -> Response:
        return html_response(pages.trace(name, case_index))
