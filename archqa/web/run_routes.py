"""The routes of the pages of runs."""

from typing import Annotated

from fastapi import Depends, FastAPI, Query
from fastapi.responses import Response

from archqa.web.compare_pages import ComparePages
from archqa.web.responses import html_response, json_response
from archqa.web.reviewer import hide_from_blind
from archqa.web.run_pages import RunPages

_First = Annotated[str, Query(alias="first")]
_Second = Annotated[str, Query(alias="second")]
_SHOWS_ANSWERS = [Depends(hide_from_blind)]


def add_run_routes(app: FastAPI, pages: RunPages) -> None:
    """Add the list of runs, and the pages of one."""

    @app.get("/")
    def index() -> Response:
        return html_response(pages.index())

    @app.get("/runs/{name}", dependencies=_SHOWS_ANSWERS)
    def run(name: str, page: int = 1, refresh: str = "") -> Response:
        return html_response(pages.run(name, page=page, refresh=refresh != "off"))

    @app.get("/runs/{name}/cases.json", dependencies=_SHOWS_ANSWERS)
    def cases(name: str, known: str = "") -> Response:
        return json_response(pages.cases_json(name, known))

    @app.get("/runs/{name}/figures", dependencies=_SHOWS_ANSWERS)
    def figures(name: str) -> Response:
        return html_response(pages.figures(name))

    @app.get("/runs/{name}/cases/{case_index}", dependencies=_SHOWS_ANSWERS)
    def case(name: str, case_index: int) -> Response:
        return html_response(pages.case(name, case_index))

    @app.get("/runs/{name}/cases/{case_index}/trace", dependencies=_SHOWS_ANSWERS)
    def trace(name: str, case_index: int) -> Response:
        return html_response(pages.trace(name, case_index))


def add_compare_routes(app: FastAPI, comparisons: ComparePages) -> None:
    """Add the pages of two runs."""

    @app.get("/compare", dependencies=_SHOWS_ANSWERS)
    def compare(name_1: _First = "", name_2: _Second = "") -> Response:
        return html_response(comparisons.compare(name_1, name_2))

    @app.get("/compare/cases.json", dependencies=_SHOWS_ANSWERS)
    def compared_cases(name_1: _First = "", name_2: _Second = "") -> Response:
        return json_response(comparisons.cases_json(name_1, name_2))

    @app.get("/compare/cases/{case_index}", dependencies=_SHOWS_ANSWERS)
    def compared_case(case_index: int, name_1: _First = "", name_2: _Second = "") -> Response:
        return html_response(comparisons.case(name_1, name_2, case_index))
