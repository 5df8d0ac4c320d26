"""The pages of runs: the list, one run, its figures and cases, and two runs side by side."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlencode

from fastapi import Depends, FastAPI, Query
from fastapi.responses import Response

from archqa.report.case_table import question_text, specialties
from archqa.report.case_view import case_view
from archqa.report.comparison import COLUMNS, KINDS
from archqa.report.figures import run_figures
from archqa.report.page import time_of_day
from archqa.report.report import RunView, run_view
from archqa.report.trace import full_trace
from archqa.web.question_form import destination_sentences
from archqa.web.reviewer import hide_from_blind
from archqa.web.run_cache import LoadedComparison, case_set_name, remember, review_mark
from archqa.web.site import NoSuchPage, Pages, Site, review_url, run_url, text_response

SHOWS_ANSWERS = [Depends(hide_from_blind)]

ROWS_OF_A_PAGE = 100
"""Rows that a page has without its script, which loads all of them."""


class _TableRow(Protocol):
    @property
    def case_index(self) -> int: ...


_Row = TypeVar("_Row", bound=_TableRow)


class _RunPage(NamedTuple):
    """A run as its page shows it. `version` names its state."""

    name: str
    view: RunView
    version: str
    is_scored: bool

    @property
    def is_growing(self) -> bool:
        """Whether the page will show more by itself: cases that end, scores that are computed."""
        return self.view.state.is_running or not self.is_scored

    @property
    def values(self) -> dict[str, Any]:
        """The values of the templates."""
        return {
            "view": self.view,
            "version": self.version,
            "growing": self.is_growing,
            "is_scored": self.is_scored,
            "name": self.name,
            "run_url": run_url(self.name),
            "review_url": review_url(self.name),
            "refreshed": time_of_day(),
        }


class RunPages(Pages):
    """The pages of the runs of a site."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._views: OrderedDict[str, RunView] = OrderedDict()

    def add_routes(self, app: FastAPI) -> None:
        """Add the list of runs, and the pages of one."""
        app.get("/")(self.index)
        app.get("/runs/{name}", dependencies=SHOWS_ANSWERS)(self.run)
        app.get("/runs/{name}/cases.json", dependencies=SHOWS_ANSWERS)(self.cases_json)
        app.get("/runs/{name}/figures", dependencies=SHOWS_ANSWERS)(self.figures)
        app.get("/runs/{name}/cases/{case_index}", dependencies=SHOWS_ANSWERS)(
            self.case
        )
        app.get("/runs/{name}/cases/{case_index}/trace", dependencies=SHOWS_ANSWERS)(
            self.trace
        )

    def index(self) -> Response:
        """Return the page with the question form and the list of runs."""
        runs, damaged_runs = self._site.library.runs()
        return self._site.page(
            "index.html.jinja",
            runs=runs,
            damaged_runs=damaged_runs,
            has_patients=self._site.record is not None,
            destinations=destination_sentences(self._site.settings, self._site.record),
        )

    def run(
        self,
        name: str,
        page: int = 1,
        refresh: str = "",
    ) -> Response:
        """Return the current page of a run."""
        run_page = self._page(name)
        rows = run_page.view.rows
        page_count = max(-(-len(rows) // ROWS_OF_A_PAGE), 1)
        page = min(max(page, 1), page_count)
        first_row = (page - 1) * ROWS_OF_A_PAGE
        return self._site.page(
            "run.html.jinja",
            **run_page.values,
            rows=rows[first_row : first_row + ROWS_OF_A_PAGE],
            page=page,
            pages=page_count,
            refresh=refresh != "off",
            specialties=specialties(run_page.view.run.cases),
        )

    def cases_json(self, name: str, known: str = "") -> Response:
        """Return the rows of a run's table as JSON, and its state as HTML.

        A page that knows this state already gets the time only.
        """
        run_page = self._page(name)
        content: dict[str, Any] = {
            "version": run_page.version,
            "growing": run_page.is_growing,
            "refreshed": time_of_day(),
        }
        if known != run_page.version:
            content["state"] = self._site.html("run_state.jinja", **run_page.values)
            content["rows"] = [row.as_json() for row in run_page.view.rows]
            content["columns"] = [column.key for column in run_page.view.columns]
        return text_response(
            json.dumps(content, ensure_ascii=False), "application/json"
        )

    def figures(self, name: str) -> Response:
        """Return the page of a run's figures, groups, cost and details."""
        data = self._site.runs.load(self._site.run_path(name))
        return self._site.page(
            "figures.html.jinja",
            view=run_view(data),
            drawn=run_figures(data),
            name=name,
            run_url=run_url(name),
        )

    def case(self, name: str, case_index: int) -> Response:
        """Return the page of one case of a run."""
        run_page = self._page(name)
        data = run_page.view.data
        place, earlier, later = find_neighbours(run_page.view.rows, case_index)
        item = data.run.cases[case_index]
        return self._site.page(
            "case.html.jinja",
            case=case_view(case_index, item, [data], trace=False),
            question=question_text(item),
            row=run_page.view.rows[place],
            earlier=earlier,
            later=later,
            place=place + 1,
            total=len(run_page.view.rows),
            decimals=data.decimals,
            is_scored=run_page.is_scored,
            run_url=run_url(name),
            case_url=f"{run_url(name)}/cases/{case_index}",
            review_url=f"{review_url(name)}/{case_index}",
        )

    def trace(self, name: str, case_index: int) -> Response:
        """Return the whole trace of a case of a run."""
        run_page = self._page(name)
        find_neighbours(run_page.view.rows, case_index)
        run = run_page.view.run
        item = run.cases[case_index]
        return self._site.page(
            "trace.html.jinja",
            case_id=item.id,
            record=run.get_record(item.id),
            trace=full_trace(run, item),
            run_url=run_url(name),
            case_url=f"{run_url(name)}/cases/{case_index}",
        )

    def _page(self, name: str) -> _RunPage:
        path = self._site.run_path(name)
        loaded = self._site.runs.load_quickly(path)
        case_set = case_set_name(loaded.data.run.manifest)
        reviews = self._site.reviews.reviews(case_set)
        is_locked = (path / "run.lock").exists()
        state = (loaded.version, loaded.is_scored, len(reviews.events), is_locked)
        digest = hashlib.sha256(repr(state).encode())
        version = digest.hexdigest()[:16]
        mark = partial(review_mark, reviews, run_name=name)
        view = remember(self._views, version, lambda: run_view(loaded.data, mark))
        return _RunPage(name, view, version, loaded.is_scored)


def find_neighbours(
    rows: Sequence[_Row], case_index: int
) -> tuple[int, _Row | None, _Row | None]:
    """Return the place of a case in a table, and the rows before and after it.

    Raises `NoSuchPage` if the table does not have the case.
    """
    for place, row in enumerate(rows):
        if row.case_index == case_index:
            earlier = rows[place - 1] if place else None
            later = rows[place + 1] if place + 1 < len(rows) else None
            return place, earlier, later
    raise NoSuchPage


_Run1 = Annotated[str, Query(alias="first")]
_Run2 = Annotated[str, Query(alias="second")]


class ComparePages(Pages):
    """The pages that compare two runs of a site."""

    def add_routes(self, app: FastAPI) -> None:
        """Add the pages of two runs."""
        app.get("/compare", dependencies=SHOWS_ANSWERS)(self.compare)
        app.get("/compare/cases.json", dependencies=SHOWS_ANSWERS)(self.cases_json)
        app.get("/compare/cases/{case_index}", dependencies=SHOWS_ANSWERS)(self.case)

    def compare(self, name_1: _Run1 = "", name_2: _Run2 = "") -> Response:
        """Return the comparison of two runs; while it is made, a page that loads itself again."""
        loaded = self._load(name_1, name_2)
        if loaded is None:
            return self._site.page("pending.html.jinja", names=(name_1, name_2))
        query = _query(name_1, name_2)
        return self._site.page(
            "compare.html.jinja",
            runs=[run_view(loaded.data_1), run_view(loaded.data_2)],
            run_urls=(run_url(name_1), run_url(name_2)),
            comparison=loaded.comparison,
            columns=COLUMNS,
            kinds=KINDS,
            query=query,
            rows_url=f"/compare/cases.json{query}",
            all_indices=frozenset(case.case_index for case in loaded.comparison.cases),
            refreshed="",
        )

    def cases_json(self, name_1: _Run1 = "", name_2: _Run2 = "") -> Response:
        """Return the rows of the table of cases as JSON."""
        loaded = self._load(name_1, name_2, wait=True)
        assert loaded is not None
        rows = [case.as_json() for case in loaded.comparison.cases]
        content = json.dumps({"rows": rows, "growing": False}, ensure_ascii=False)
        return text_response(content, "application/json")

    def case(
        self,
        case_index: int,
        name_1: _Run1 = "",
        name_2: _Run2 = "",
    ) -> Response:
        """Return one case in both runs."""
        loaded = self._load(name_1, name_2)
        if loaded is None:
            return self._site.page("pending.html.jinja", names=(name_1, name_2))
        cases = loaded.comparison.cases
        place, earlier, later = find_neighbours(cases, case_index)
        runs = [loaded.data_1, loaded.data_2]
        item = loaded.data_1.run.cases[case_index]
        return self._site.page(
            "compare_case.html.jinja",
            case=case_view(case_index, item, runs, trace=False),
            compared=cases[place],
            earlier=earlier,
            later=later,
            names=(name_1, name_2),
            run_urls=(run_url(name_1), run_url(name_2)),
            query=_query(name_1, name_2),
            decimals=loaded.data_1.decimals,
        )

    def _load(
        self,
        name_1: str,
        name_2: str,
        *,
        wait: bool = False,
    ) -> LoadedComparison | None:
        path_1 = self._site.run_path(name_1)
        path_2 = self._site.run_path(name_2)
        return self._site.runs.compare(path_1, path_2, wait=wait)


def _query(name_1: str, name_2: str) -> str:
    return "?" + urlencode({"first": name_1, "second": name_2})
