"""The pages of runs: the list of them, one run, and two side by side.

A method returns None if there is no such page.
"""

from collections import OrderedDict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from archqa.errors import InputError
from archqa.report import report_html
from archqa.report.report_data import ReportData, load_report_data
from archqa.report.trace import full_trace
from archqa.runs.run import Run
from archqa.settings import Settings
from archqa.web.library import RunLibrary
from archqa.web.page_renderer import LiveLinks, PageRenderer
from archqa.web.question_destinations import describe_question_destinations

_MAX_CACHED_REPORTS = 8
_FILES_OF_A_REPORT = ("run.json", "cases.jsonl", "scores.json")


class RunPages:
    """The pages of a library of runs. `key` is scored against where a run's own is absent."""

    def __init__(
        self,
        renderer: PageRenderer,
        library: RunLibrary,
        settings: Settings,
        record: str | None,
        key: Path | None,
    ) -> None:
        self._renderer = renderer
        self._library = library
        self._settings = settings
        self._record = record
        self._key = key
        self._report_cache: OrderedDict[tuple[Any, ...], str] = OrderedDict()

    def index(self) -> str:
        """Return the page with the question form and the list of runs."""
        runs, damaged_runs = self._library.runs()
        has_patients = self._record is not None
        return self._renderer.render(
            "index.html.jinja",
            runs=runs,
            damaged_runs=damaged_runs,
            has_patients=has_patients,
            destinations=describe_question_destinations(self._settings, self._record),
        )

    def run(self, name: str) -> str | None:
        """Return the current report of a run."""
        path = self._library.find(name)
        if path is None:
            return None
        live = LiveLinks(review_url=review_url(name))
        return self._report([path], live)

    def compare(self, name_1: str, name_2: str) -> str | None:
        """Return the report of two runs."""
        path_1 = self._library.find(name_1)
        path_2 = self._library.find(name_2)
        if path_1 is None or path_2 is None:
            return None
        return self._report([path_1, path_2], LiveLinks())

    def trace(self, name: str, case_index: int) -> str | None:
        """Return the whole trace of a case of a run."""
        path = self._library.find(name)
        run = Run.open(path) if path else None
        if run is None or not 0 <= case_index < len(run.cases):
            return None
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
        path = self._library.find(name)
        if path is None:
            return None
        try:
            return load_report_data(path, self._key)
        except InputError:  # The server's key may belong to another run.
            return load_report_data(path)

    def _report(self, paths: list[Path], live: LiveLinks) -> str:
        """Return a report from the cache, or render it if a file has changed."""
        cache_key = tuple((path, *_modification_times(path)) for path in paths)
        if cache_key in self._report_cache:
            return self._report_cache[cache_key]
        html = report_html(paths, key=self._key, live=live)
        self._report_cache[cache_key] = html
        if len(self._report_cache) > _MAX_CACHED_REPORTS:
            self._report_cache.popitem(last=False)
        return html


def run_url(name: str) -> str:
    """Return the URL of a run."""
    return f"/runs/{quote(name, safe='')}"


def case_url(name: str, case_index: int) -> str:
    """Return the URL of a case of a run."""
    return f"{run_url(name)}/cases/{case_index}"


def review_url(name: str) -> str:
    """Return the URL of the reviews of a run."""
    return f"{run_url(name)}/review"


def _modification_times(run: Path) -> tuple[float, ...]:
    """Return when the files of a report were last written; 0 for a file that is absent."""
    times = []
    for file_name in _FILES_OF_A_REPORT:
        path = run / file_name
        time = path.stat().st_mtime_ns if path.is_file() else 0
        times.append(time)
    return tuple(times)
