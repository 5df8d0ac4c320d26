"""The runs that the pages show, read from disk for each page so that running ones are current."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from archqa.errors import ArchqaError, InputError
from archqa.report.report_data import load_stored_data, read_summaries
from archqa.report.run_state import run_word
from archqa.report.scoreboard import main_score, scored_cases
from archqa.runs.record import CaseStatus, RunManifest
from archqa.runs.run import Run
from archqa.safety.files import storage_errors
from archqa.safety.text import without_surrogates

FileTimes = tuple[tuple[int, int], ...]
"""Time of the last change and size of each file of a run; zeros for a file that is absent."""

_FILES_OF_A_RUN = (
    "run.json",
    "input.jsonl",
    "cases.jsonl",
    "scores.json",
    "submission.json",
)

_BEGINNING = re.compile(rb'\{"id":("(?:[^"\\]|\\.)*"),"status":"([a-z]+)"')
"""How a line of `cases.jsonl` begins, as archqa writes it."""


class StoredScore(NamedTuple):
    """A score, as the list of runs shows it; `over` says of how many cases it is."""

    name: str
    value: float
    decimals: int
    over: str


class RunListing(NamedTuple):
    """One run in the list of runs. `word` says how it stands; `failed_cases` are of the finished.

    `score` is the main score that is stored of its present state, with its name and its cases; it
    is None without one.
    """

    name: str
    manifest: RunManifest
    finished_cases: int
    failed_cases: int
    word: str
    score: StoredScore | None


class DamagedRun(NamedTuple):
    """A run that cannot be read, and why: one sentence."""

    name: str
    reason: str


class RunLibrary:
    """Folders of runs, or single runs.

    A name is looked up among the runs on disk and never joined to a path.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        for folder in folders:
            if not folder.is_dir():
                raise InputError(
                    folder, [": is no folder."], "Name a folder of runs, or a run."
                )
        self._folders = tuple(folders)
        self._listings: dict[Path, tuple[FileTimes, RunListing]] = {}

    @property
    def base_dir(self) -> Path:
        """The folder of the runs, where annotations are saved by default."""
        folder = self._folders[0]
        return folder.parent if _is_run(folder) else folder

    def paths(self) -> dict[str, Path]:
        """Return each run's folder by name, in reverse order of names; links are not followed."""
        runs = {}
        for folder in self._folders:
            candidates = [folder]
            if not _is_run(folder):
                candidates = [
                    path for path in folder.iterdir() if not path.is_symlink()
                ]
            for path in candidates:
                if _is_run(path):
                    # The name stands in pages and URLs, which are UTF-8.
                    runs[without_surrogates(path.name)] = path
        return dict(sorted(runs.items(), reverse=True))

    def find(self, name: str) -> Path | None:
        """Return the folder of a run; None if there is none of this name."""
        return self.paths().get(name)

    def runs(self) -> tuple[list[RunListing], list[DamagedRun]]:
        """Return the runs, the latest start first, and those that cannot be read."""
        listings = []
        damaged = []
        for name, path in self.paths().items():
            try:
                listings.append(self._read_listing(name, path))
            except (ArchqaError, OSError) as error:
                reason = str(error).splitlines()[0]
                damaged.append(DamagedRun(name, reason))
        # Times are comparable also where one has no zone.
        listings.sort(
            key=lambda run: run.manifest.started_at.replace(tzinfo=None), reverse=True
        )
        return listings, damaged

    def _read_listing(self, name: str, path: Path) -> RunListing:
        """Return a run of the list; one whose files have not changed is not read anew."""
        times = file_times(path)
        known_times, listing = self._listings.get(path, (None, None))
        if listing is None or known_times != times:
            run = Run.open(path)
            statuses = _count_statuses(path)
            manifest = run.manifest
            # Scores that were stored before the last case ended are left out.
            data = load_stored_data(run, {}, statuses.total())
            line = main_score(data)
            score = None
            if line is not None:
                over = scored_cases(data.scores)
                score = StoredScore(line.name, line.value, data.decimals, over)
            failed = statuses[CaseStatus.FAILED.value]
            listing = RunListing(name, manifest, statuses.total(), failed, "", score)
            self._listings[path] = (times, listing)
        # A process that is killed changes no file.
        return listing._replace(word=run_word(path, listing.manifest))


def file_times(run: Path) -> FileTimes:
    """Return what changes with the files of a run."""
    times = []
    for name in _FILES_OF_A_RUN:
        file = run / name
        time_and_size = (0, 0)
        if file.is_file():
            status = file.stat()
            time_and_size = (status.st_mtime_ns, status.st_size)
        times.append(time_and_size)
    return tuple(times)


def _is_run(path: Path) -> bool:
    return (path / "run.json").is_file()


def _count_statuses(path: Path) -> Counter[str]:
    """Count how the cases ended: the last line of each case says it. Raises `InputError`.

    Only the beginning of a line is read; a record may hold thousands of rows.
    """
    file = path / "cases.jsonl"
    statuses: dict[bytes, str] = {}
    with storage_errors(file):
        if not file.is_file():
            return Counter()
        with file.open("rb") as lines:
            for line in lines:
                beginning = _BEGINNING.match(line)
                if beginning is None:
                    summaries = read_summaries(path).values()
                    return Counter(summary.status for summary in summaries)
                if line.endswith(b"\n"):
                    statuses[beginning[1]] = beginning[2].decode()
    return Counter(statuses.values())
