"""The pages of two runs side by side: all cases, and one case in both."""

import json
from typing import Annotated
from urllib.parse import urlencode

from fastapi import FastAPI, Query
from fastapi.responses import Response

from archqa.report.case_view import case_view
from archqa.report.comparison import COLUMNS, KINDS
from archqa.report.report import run_view
from archqa.web.run_cache import LoadedComparison
from archqa.web.run_pages import SHOWS_ANSWERS, find_neighbours
from archqa.web.site import Site, run_url, text_response

_Run1 = Annotated[str, Query(alias="first")]
_Run2 = Annotated[str, Query(alias="second")]


class ComparePages:
    """The pages that compare two runs of a site."""

    def __init__(self, site: Site) -> None:
        self._site = site

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
