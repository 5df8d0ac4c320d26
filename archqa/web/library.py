"""The runs that the pages show, read from disk for each page so that running ones are current."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from archqa.errors import ArchqaError, InputError
from archqa.runs.folder import RunFolder
from archqa.runs.record import RunManifest
from archqa.runs.run import Run
from archqa.safety.whole_characters import whole_text


class RunListing(NamedTuple):
    """One run in the list of runs."""

    name: str
    manifest: RunManifest
    finished_cases: int


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
                raise InputError(folder, [": is no folder."], "Name a folder of runs, or a run.")
        self._folders = tuple(folders)

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
                candidates = [path for path in folder.iterdir() if not path.is_symlink()]
            for path in candidates:
                if _is_run(path):
                    # The name stands in pages and URLs, which are UTF-8.
                    runs[whole_text(path.name)] = path
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
                listings.append(_read_listing(name, path))
            except (ArchqaError, OSError) as error:
                reason = str(error).splitlines()[0]
                damaged.append(DamagedRun(name, reason))
        return sorted(listings, key=_start, reverse=True), damaged


def _is_run(path: Path) -> bool:
    return (path / "run.json").is_file()


def _start(listing: RunListing) -> datetime:
    """Return when a run started, comparable also where its time has no zone."""
    return listing.manifest.started_at.replace(tzinfo=None)


def _read_listing(name: str, path: Path) -> RunListing:
    run = Run(RunFolder.open(path))
    finished_cases = sum(1 for _ in run.folder.records())
    return RunListing(name, run.manifest, finished_cases)
