"""The pages of runs: the list of them, one run, its figures, and one of its cases.

A method returns None if there is no such page.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from archqa.report.case_rows import CaseRow, question_text, specialties
from archqa.report.case_view import case_view
from archqa.report.report import RunView, run_figures, run_view
from archqa.report.report_data import ReportData
from archqa.report.trace import full_trace
from archqa.review.store import ReviewStore
from archqa.settings import Settings
from archqa.web.library import RunLibrary
from archqa.web.page_renderer import LiveLinks, PageRenderer
from archqa.web.question_destinations import describe_question_destinations
from archqa.web.review_marks import review_marks
from archqa.web.run_cache import RunCache

ROWS_OF_A_PAGE = 100
"""Rows that a page has without its script, which loads all of them."""

_MAX_CACHED_VIEWS = 8


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


class RunPages:
    """The pages of a library of runs. `cache` has their data, `reviews` what was said of them."""

    def __init__(
        self,
        renderer: PageRenderer,
        library: RunLibrary,
        settings: Settings,
        record: str | None,
        key: Path | None,
        reviews: ReviewStore | None = None,
    ) -> None:
        self.library = library
        self.cache = RunCache(key)
        self._renderer = renderer
        self._settings = settings
        self._record = record
        self._reviews = reviews or ReviewStore(library.base_dir / "annotations")
        self._views: OrderedDict[str, RunView] = OrderedDict()

    def index(self) -> str:
        """Return the page with the question form and the list of runs."""
        runs, damaged_runs = self.library.runs()
        has_patients = self._record is not None
        return self._renderer.render(
            "index.html.jinja",
            runs=runs,
            damaged_runs=damaged_runs,
            has_patients=has_patients,
            destinations=describe_question_destinations(self._settings, self._record),
        )

    def run(self, name: str, *, page: int = 1, refresh: bool = True) -> str | None:
        """Return the current page of a run. Raises `InputError` if it is damaged."""
        shown = self._page(name)
        if shown is None:
            return None
        rows = shown.view.rows
        pages = max(-(-len(rows) // ROWS_OF_A_PAGE), 1)
        first_row = (min(max(page, 1), pages) - 1) * ROWS_OF_A_PAGE
        return self._renderer.render(
            "run.html.jinja",
            **self._values(shown),
            rows=rows[first_row : first_row + ROWS_OF_A_PAGE],
            page=min(max(page, 1), pages),
            pages=pages,
            refresh=refresh,
            specialties=specialties(rows),
        )

    def cases_json(self, name: str, known_version: str = "") -> str | None:
        """Return the rows of a run's table as JSON, and its state as HTML.

        A page that knows this state already gets the time only.
        """
        shown = self._page(name)
        if shown is None:
            return None
        content: dict[str, Any] = {
            "version": shown.version,
            "growing": shown.is_growing,
            "refreshed": _time_of_day(),
        }
        if known_version != shown.version:
            content["state"] = self._renderer.render("run_state.jinja", **self._values(shown))
            content["rows"] = [row.as_json() for row in shown.view.rows]
            content["columns"] = [column.key for column in shown.view.columns]
        return json.dumps(content, ensure_ascii=False)

    def figures(self, name: str) -> str | None:
        """Return the page of a run's figures, groups, cost and details."""
        path = self.library.find(name)
        if path is None:
            return None
        data = self.cache.load(path)
        return self._renderer.render(
            "figures.html.jinja",
            view=run_view(data),
            drawn=run_figures(data),
            name=name,
            run_url=run_url(name),
        )

    def case(self, name: str, case_index: int) -> str | None:
        """Return the page of one case of a run."""
        shown = self._page(name)
        if shown is None or not 0 <= case_index < len(shown.view.rows):
            return None
        data = shown.view.data
        row, earlier, later = neighbours(shown.view.rows, case_index)
        item = data.run.cases[case_index]
        return self._renderer.render(
            "case.html.jinja",
            case=case_view(case_index, item, [data], trace=False),
            question=question_text(item),
            row=row,
            earlier=earlier,
            later=later,
            place=shown.view.rows.index(row) + 1,
            total=len(shown.view.rows),
            decimals=data.decimals,
            is_scored=shown.is_scored,
            name=name,
            run_url=run_url(name),
            case_url=case_url(name, case_index),
            review_url=f"{review_url(name)}/{case_index}",
            live=LiveLinks(review_url=review_url(name)),
        )

    def trace(self, name: str, case_index: int) -> str | None:
        """Return the whole trace of a case of a run."""
        shown = self._page(name)
        if shown is None or not 0 <= case_index < len(shown.view.rows):
            return None
        run = shown.view.data.run
        item = run.cases[case_index]
        return self._renderer.render(
            "trace.html.jinja",
            case_id=item.id,
            record=run.get_record(item.id),
            trace=full_trace(run, item),
            run_url=run_url(name),
            case_url=case_url(name, case_index),
        )

    def load(self, name: str) -> ReportData | None:
        """Return the data of a run. Raises `InputError` if it is damaged."""
        path = self.library.find(name)
        return None if path is None else self.cache.load(path)

    def _page(self, name: str) -> _RunPage | None:
        path = self.library.find(name)
        if path is None:
            return None
        loaded = self.cache.load_quickly(path)
        manifest = loaded.data.run.manifest
        marks = review_marks(self._reviews, manifest, name)
        word_of_lock = (path / "run.lock").exists()
        version = _version(loaded.version, loaded.is_scored, marks.events, word_of_lock)
        if version not in self._views:
            self._views[version] = run_view(loaded.data, marks.mark)
            if len(self._views) > _MAX_CACHED_VIEWS:
                self._views.popitem(last=False)
        return _RunPage(name, self._views[version], version, loaded.is_scored)

    def _values(self, shown: _RunPage) -> dict[str, Any]:
        return {
            "view": shown.view,
            "version": shown.version,
            "growing": shown.is_growing,
            "is_scored": shown.is_scored,
            "name": shown.name,
            "run_url": run_url(shown.name),
            "review_url": review_url(shown.name),
            "refreshed": _time_of_day(),
        }


def neighbours(
    rows: Sequence[CaseRow], case_index: int
) -> tuple[CaseRow, CaseRow | None, CaseRow | None]:
    """Return the row of a case, and those before and after it in the order of the table."""
    place = next(place for place, row in enumerate(rows) if row.case_index == case_index)
    earlier = rows[place - 1] if place else None
    later = rows[place + 1] if place + 1 < len(rows) else None
    return rows[place], earlier, later


def run_url(name: str) -> str:
    """Return the URL of a run."""
    return f"/runs/{quote(name, safe='')}"


def case_url(name: str, case_index: int) -> str:
    """Return the URL of a case of a run."""
    return f"{run_url(name)}/cases/{case_index}"


def review_url(name: str) -> str:
    """Return the URL of the reviews of a run."""
    return f"{run_url(name)}/review"


def _version(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _time_of_day() -> str:
    """Return the present time on the clock of this machine."""
    return f"{datetime.now().astimezone():%H:%M:%S}"
