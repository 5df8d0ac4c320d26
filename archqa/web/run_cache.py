"""The data of runs for the pages: read when a file of the run has changed, scored in the background.

To score 2,522 cases takes seconds; a page shows what the run stores until that is done.
"""

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Any, NamedTuple

from archqa.errors import InputError
from archqa.report.comparison import RunComparison, compare_for_report
from archqa.report.record_summaries import read_summaries
from archqa.report.report import check_same_task
from archqa.report.report_data import ReportData, load_report_data, load_stored_data
from archqa.runs.run import Run

PENDING = "pending"
"""The reason why data has no scores yet: they are being computed."""

_MAX_CACHED = 8
_MAX_CASES_TO_WAIT_FOR = 300
_MAX_WAIT_SECONDS = 0.05
_WAIT_FOR_SMALL_RUNS = 20.0
_WAIT_FOR_A_COMPARISON = 20.0
_HEAD_START_SECONDS = 1.0
_FILES_OF_A_RUN = ("run.json", "input.jsonl", "cases.jsonl", "scores.json", "submission.json")

_Key = tuple[Any, ...]


class LoadedRun(NamedTuple):
    """The data of a run in one state; `version` names the state. `is_scored`: all is computed."""

    data: ReportData
    version: _Key
    is_scored: bool


class LoadedComparison(NamedTuple):
    """Two runs and what changes from the first to the second."""

    data_1: ReportData
    data_2: ReportData
    comparison: RunComparison


class RunCache:
    """The data of the latest runs. `key` is scored against where a run's own key is absent."""

    def __init__(self, key: Path | None) -> None:
        self._key = key
        self._lock = Lock()
        self._worker = ThreadPoolExecutor(max_workers=3, thread_name_prefix="scores")
        self._jobs: OrderedDict[_Key, Future[Any]] = OrderedDict()
        self._stored: OrderedDict[_Key, ReportData] = OrderedDict()
        self._latest: dict[Path, ReportData] = {}

    def close(self) -> None:
        """Drop what has not been begun."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def load(self, path: Path) -> ReportData:
        """Return the data of a run with its scores. Raises `InputError` if it is damaged."""
        data: ReportData = self._job(self._run_key(path), lambda: self._score(path)).result()
        return data

    def load_quickly(self, path: Path) -> LoadedRun:
        """Return the data of a run, without the scores of its cases if these take long.

        Raises `InputError` if it is damaged.
        """
        key = self._run_key(path)
        stored = self._stored_data(path, key)
        is_small = len(stored.run.manifest.case_ids) <= _MAX_CASES_TO_WAIT_FOR
        head_start = 0.0 if is_small else _HEAD_START_SECONDS
        job = self._job(key, lambda: self._score(path, head_start))
        try:
            return LoadedRun(
                job.result(_WAIT_FOR_SMALL_RUNS if is_small else _MAX_WAIT_SECONDS), key, True
            )
        except NotYet:
            return LoadedRun(self._meanwhile(path, stored), key, False)

    def compare(self, path_1: Path, path_2: Path, *, wait: bool = False) -> LoadedComparison | None:
        """Return two runs compared; None while they are being compared, unless `wait`.

        Raises `CallerError` for runs of different tasks, `InputError` if one is damaged.
        """
        key = ("compared", self._run_key(path_1), self._run_key(path_2))
        job = self._job(key, lambda: self._compare(path_1, path_2))
        try:
            loaded: LoadedComparison = job.result(None if wait else _WAIT_FOR_A_COMPARISON)
        except NotYet:
            return None
        return loaded

    def _meanwhile(self, path: Path, stored: ReportData) -> ReportData:
        """What is shown until the scores are there: those of the state before, if there are any."""
        latest = self._latest.get(path)
        if latest is None:
            return stored._replace(unscored_reason=PENDING)
        return stored._replace(
            scores=stored.scores or latest.scores, per_case=latest.per_case, keys=latest.keys
        )

    def _stored_data(self, path: Path, key: _Key) -> ReportData:
        with self._lock:
            if key not in self._stored:
                run = Run.open(path)
                self._stored[key] = load_stored_data(run, read_summaries(path))
                _forget_oldest(self._stored)
            return self._stored[key]

    def _score(self, path: Path, head_start: float = 0.0) -> ReportData:
        """Score a run; with a head start, the page that asks for it is made first."""
        sleep(head_start)
        stored = self._stored_data(path, self._run_key(path))
        try:
            data = load_report_data(path, self._key)
        except InputError:  # The server's key may belong to another run.
            data = load_report_data(path)
        for case_id in stored.summaries:
            stored.run.get_record(case_id)  # Reads where each case's record begins.
            break
        data = data._replace(run=stored.run)
        self._latest[path] = data
        return data

    def _compare(self, path_1: Path, path_2: Path) -> LoadedComparison:
        data_1, data_2 = self._scored(path_1), self._scored(path_2)
        check_same_task([data_1, data_2])
        comparison = compare_for_report(data_1, data_2, self._key)
        return LoadedComparison(data_1, data_2, comparison)

    def _scored(self, path: Path) -> ReportData:
        """The data of a run, from within the worker: a job may not wait for another one."""
        job = self._jobs.get(self._run_key(path))
        if job is not None and job.done():
            data: ReportData = job.result()
            return data
        return self._score(path)

    def _job(self, key: _Key, compute: Callable[[], Any]) -> Future[Any]:
        with self._lock:
            if key not in self._jobs:
                self._jobs[key] = self._worker.submit(compute)
                _forget_oldest(self._jobs)
            return self._jobs[key]

    def _run_key(self, path: Path) -> _Key:
        return (path, *_modification_times(path))


def _forget_oldest(cache: OrderedDict[_Key, Any]) -> None:
    if len(cache) > _MAX_CACHED:
        cache.popitem(last=False)


def _modification_times(run: Path) -> tuple[int, ...]:
    """When the files of a run were last written; 0 for a file that is absent."""
    paths = [run / name for name in _FILES_OF_A_RUN]
    return tuple(path.stat().st_mtime_ns if path.is_file() else 0 for path in paths)
