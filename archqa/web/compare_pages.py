"""The pages of two runs side by side: all cases, and one case in both.

A method returns None if there is no such page.
"""

import json
from urllib.parse import urlencode

from archqa.errors import CallerError
from archqa.report.case_view import case_view
from archqa.report.comparison import COLUMNS, KINDS
from archqa.report.report import run_view
from archqa.web.page_renderer import PageRenderer
from archqa.web.run_cache import LoadedComparison
from archqa.web.run_pages import RunPages, run_url


class ComparePages:
    """The pages that compare two runs of a library."""

    def __init__(self, renderer: PageRenderer, runs: RunPages) -> None:
        self._renderer = renderer
        self._runs = runs

    def compare(self, name_1: str, name_2: str) -> str | None:
        """Return the comparison of two runs; while it is made, a page that loads itself again."""
        if not self._exist(name_1, name_2):
            return None
        loaded = self._load(name_1, name_2)
        if loaded is None:
            return self._renderer.render("pending.html.jinja", names=(name_1, name_2))
        views = [run_view(data) for data in (loaded.data_1, loaded.data_2)]
        query = _query(name_1, name_2)
        return self._renderer.render(
            "compare.html.jinja",
            runs=views,
            run_urls=(run_url(name_1), run_url(name_2)),
            comparison=loaded.comparison,
            columns=COLUMNS,
            kinds=KINDS,
            query=query,
            rows_url=f"/compare/cases.json{query}",
            all_indices=frozenset(case.case_index for case in loaded.comparison.cases),
            refreshed="",
        )

    def cases_json(self, name_1: str, name_2: str) -> str | None:
        """Return the rows of the table of cases as JSON."""
        if not self._exist(name_1, name_2):
            return None
        loaded = self._load(name_1, name_2, wait=True)
        assert loaded is not None
        rows = [case.as_json() for case in loaded.comparison.cases]
        return json.dumps({"rows": rows, "growing": False}, ensure_ascii=False)

    def case(self, name_1: str, name_2: str, case_index: int) -> str | None:
        """Return one case in both runs."""
        if not self._exist(name_1, name_2):
            return None
        loaded = self._load(name_1, name_2)
        if loaded is None:
            return self._renderer.render("pending.html.jinja", names=(name_1, name_2))
        cases = loaded.comparison.cases
        place = next((at for at, case in enumerate(cases) if case.case_index == case_index), None)
        if place is None:
            return None
        runs = [loaded.data_1, loaded.data_2]
        item = loaded.data_1.run.cases[case_index]
        return self._renderer.render(
            "compare_case.html.jinja",
            case=case_view(case_index, item, runs, trace=False),
            compared=cases[place],
            earlier=cases[place - 1] if place else None,
            later=cases[place + 1] if place + 1 < len(cases) else None,
            names=(name_1, name_2),
            run_urls=(run_url(name_1), run_url(name_2)),
            query=_query(name_1, name_2),
            decimals=loaded.data_1.decimals,
        )

    def _exist(self, name_1: str, name_2: str) -> bool:
        return all(self._runs.library.find(name) for name in (name_1, name_2))

    def _load(self, name_1: str, name_2: str, *, wait: bool = False) -> LoadedComparison | None:
        path_1 = self._runs.library.find(name_1)
        path_2 = self._runs.library.find(name_2)
        if path_1 is None or path_2 is None:
            raise CallerError("A run has been removed.\nChoose two runs of the list anew.")
        return self._runs.cache.compare(path_1, path_2, wait=wait)


def _query(name_1: str, name_2: str) -> str:
    return "?" + urlencode({"first": name_1, "second": name_2})
