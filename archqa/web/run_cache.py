"""The data of runs for the pages: read when a file of the run has changed, scored in the background.

To score 2,522 cases takes seconds; a page shows what the run stores until that is done.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from functools import cached_property
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Any, NamedTuple, TypeVar

from archqa.core.key import record_version
from archqa.core.question import Item
from archqa.errors import InputError
from archqa.report.case_table import ReviewMark
from archqa.report.comparison import RunComparison, compare_for_report
from archqa.report.report import check_same_task
from archqa.report.report_data import (
    ReportData,
    load_gold,
    load_report_data,
    load_stored_data,
    read_summaries,
)
from archqa.review import CaseSetReviews
from archqa.runs.record import RunManifest
from archqa.runs.run import Run
from archqa.web.library import RunLibrary, file_times

PENDING = "pending"
"""The reason why data has no scores yet: they are being computed."""

_MAX_CACHED = 8
_MAX_CASES_TO_WAIT_FOR = 300
_MAX_WAIT_SECONDS = 0.05
_WAIT_FOR_SMALL_RUNS = 20.0
_WAIT_FOR_A_COMPARISON = 20.0
_HEAD_START_SECONDS = 1.0

_Key = tuple[Any, ...]
_Value = TypeVar("_Value")


def remember(
    cache: OrderedDict[Any, _Value],
    key: object,
    make: Callable[[], _Value],
) -> _Value:
    """Return the value of a key, made if it is new; of more than eight values the oldest goes."""
    if key not in cache:
        cache[key] = make()
        if len(cache) > _MAX_CACHED:
            cache.popitem(last=False)
    return cache[key]


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
        job = self._job(_run_key(path), lambda: self._score(path))
        data: ReportData = job.result()
        return data

    def load_quickly(self, path: Path) -> LoadedRun:
        """Return the data of a run, without the scores of its cases if these take long.

        Until then, it has those of the state before, if there are any. Raises `InputError` if the
        run is damaged.
        """
        key = _run_key(path)
        stored = self._stored_data(path, key)
        wait, head_start = _MAX_WAIT_SECONDS, _HEAD_START_SECONDS
        if len(stored.run.manifest.case_ids) <= _MAX_CASES_TO_WAIT_FOR:
            wait, head_start = _WAIT_FOR_SMALL_RUNS, 0.0
        job = self._job(key, lambda: self._score(path, head_start))
        try:
            return LoadedRun(job.result(wait), key, True)
        except NotYet:
            data = stored._replace(unscored_reason=PENDING)
            latest = self._latest.get(path)
            if latest is not None:
                data = stored._replace(
                    scores=stored.scores or latest.scores,
                    per_case=latest.per_case,
                    keys=latest.keys,
                )
            return LoadedRun(data, key, False)

    def compare(
        self,
        path_1: Path,
        path_2: Path,
        *,
        wait: bool = False,
    ) -> LoadedComparison | None:
        """Return two runs compared; None while they are being compared, unless `wait`.

        Raises `CallerError` for runs of different tasks, `InputError` if one is damaged.
        """
        key = ("compared", _run_key(path_1), _run_key(path_2))
        job = self._job(key, lambda: self._compare(path_1, path_2))
        try:
            loaded: LoadedComparison = job.result(
                None if wait else _WAIT_FOR_A_COMPARISON
            )
        except NotYet:
            return None
        return loaded

    def _stored_data(self, path: Path, key: _Key) -> ReportData:
        with self._lock:
            return remember(
                self._stored,
                key,
                lambda: load_stored_data(Run.open(path), read_summaries(path)),
            )

    def _score(self, path: Path, head_start: float = 0.0) -> ReportData:
        """Score a run; with a head start, the page that asks for it is made first."""
        sleep(head_start)
        stored = self._stored_data(path, _run_key(path))
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
        runs: list[ReportData] = []
        for path in (path_1, path_2):
            # A job may not wait for another one.
            job = self._jobs.get(_run_key(path))
            is_scored = job is not None and job.done()
            runs.append(job.result() if job and is_scored else self._score(path))
        check_same_task(runs)
        data_1, data_2 = runs
        return LoadedComparison(
            data_1, data_2, compare_for_report(data_1, data_2, self._key)
        )

    def _job(self, key: _Key, compute: Callable[[], Any]) -> Future[Any]:
        with self._lock:
            return remember(self._jobs, key, lambda: self._worker.submit(compute))


class ReviewableRun:
    """A run at one moment, as reviewing needs it. `name` is that of its URL."""

    def __init__(
        self,
        name: str,
        run: Run,
        key: Path | None,
    ) -> None:
        self.name = name
        self.run = run
        self._key = key

    @property
    def cases(self) -> Sequence[Item]:
        """The cases of the run, in the order of its file."""
        return self.run.cases

    @cached_property
    def case_set(self) -> str:
        """The name of the reviews of its data set."""
        return case_set_name(self.run.manifest)

    @cached_property
    def gold(self) -> ReportData:
        """Keys and scores of the cases, which a reviewer must not see too early."""
        return load_gold(self.run, self._key)

    def answer_version(self, case_id: str) -> str:
        """The version of a case's record; empty if the case has not been reached."""
        line = self.run.record_line(case_id)
        return record_version(line) if line else ""

    @cached_property
    def indices(self) -> dict[str, int]:
        """Case id to the index of the case."""
        return {item.id: index for index, item in enumerate(self.cases)}


class ReviewableRuns:
    """The runs of a library, read anew when one of their files has changed.

    `key` holds the gold where a run has no key of its own.
    """

    def __init__(self, library: RunLibrary, key: Path | None) -> None:
        self._library = library
        self._key = key
        self._cache: OrderedDict[_Key, ReviewableRun] = OrderedDict()

    def find(self, name: str) -> ReviewableRun | None:
        """Return a run; None if there is none of this name. Raises `InputError` if damaged."""
        path = self._library.find(name)
        if path is None:
            return None
        key = _run_key(path)

        return remember(
            self._cache, key, lambda: ReviewableRun(name, Run.open(path), self._key)
        )


def case_set_name(manifest: RunManifest) -> str:
    """Return the name of the reviews of a data set: case ids are unique only within one."""
    file_name = Path(manifest.data.path).stem or "cases"
    return f"{file_name}-{manifest.data.sha256[:8]}"


def review_mark(reviews: CaseSetReviews, case_id: str, run_name: str) -> ReviewMark:
    """Return who has said something of a case's note or of this run's answer."""
    case = reviews.case(case_id)
    reviewers = [
        name for name in case.reviewers if case.reviewer_events(name, run_name)
    ]
    return ReviewMark(tuple(reviewers), case.disagrees(run_name))


def _run_key(path: Path) -> _Key:
    return (path, *file_times(path))
