"""The runs as reviewing needs them: cases, records, the set of cases, and scores where asked for."""

from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from archqa.core.question import Item
from archqa.report.gold import Gold, load_gold
from archqa.review.event import record_version
from archqa.runs.run import Run
from archqa.web.library import RunLibrary
from archqa.web.review_marks import case_set_name

_MAX_CACHED_RUNS = 8
_FILES_OF_A_RUN = ("run.json", "input.jsonl", "cases.jsonl", "scores.json")


class ReviewableRun:
    """A run at one moment. `name` is that of its URL."""

    def __init__(self, name: str, run: Run, key: Path | None) -> None:
        self.name = name
        self.run = run
        self._key = key

    @property
    def cases(self) -> Sequence[Item]:
        """The cases of the run, in the order of its file."""
        return self.run.cases

    @cached_property
    def case_set(self) -> str:
        """The name of the reviews of its data set: case ids are unique only within a data set."""
        return case_set_name(self.run.manifest)

    @cached_property
    def gold(self) -> Gold:
        """Keys and scores of the cases, which a reviewer must not see too early."""
        return load_gold(self.run, self._key)

    def case(self, index: int) -> Item | None:
        """The case of an index; None if there is none."""
        return self.cases[index] if 0 <= index < len(self.cases) else None

    def index_of(self, case_id: str) -> int | None:
        """The index of a case; None if the run does not have it."""
        return self._indices.get(case_id)

    def version_of(self, case_id: str) -> str:
        """The version of a case's record; empty if the case has not been reached."""
        line = self.run.record_line(case_id)
        return record_version(line) if line else ""

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {item.id: index for index, item in enumerate(self.cases)}


class ReviewableRuns:
    """The runs of a library, read anew when one of their files has changed.

    `key` holds the gold where a run has no key of its own.
    """

    def __init__(self, library: RunLibrary, key: Path | None) -> None:
        self._library = library
        self._key = key
        self._cache: OrderedDict[tuple[Any, ...], ReviewableRun] = OrderedDict()

    def find(self, name: str) -> ReviewableRun | None:
        """Return a run; None if there is none of this name. Raises `InputError` if damaged."""
        path = self._library.find(name)
        if path is None:
            return None
        cache_key = (path, *_change_times(path))
        if cache_key not in self._cache:
            self._cache[cache_key] = ReviewableRun(name, Run.open(path), self._key)
            if len(self._cache) > _MAX_CACHED_RUNS:
                self._cache.popitem(last=False)
        return self._cache[cache_key]


def _change_times(run: Path) -> tuple[int, ...]:
    """When the files of a run were last written; 0 for a file that is absent."""
    paths = [run / name for name in _FILES_OF_A_RUN]
    return tuple(path.stat().st_mtime_ns if path.is_file() else 0 for path in paths)
