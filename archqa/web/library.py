"""The runs that can be looked at: found anew for each page, so that a run under way is seen as it is."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from archqa.errors import ArchqaError, InputError
from archqa.runs.folder import RunFolder
from archqa.runs.record import RunManifest
from archqa.runs.run import Run


class RunListing(NamedTuple):
    """One run as the list shows it."""

    name: str
    manifest: RunManifest
    ended: int


class RunLibrary:
    """Folders of runs, or single runs. Names are looked up in what was found there, never joined to a path."""

    def __init__(self, places: Sequence[Path]) -> None:
        missing = [place for place in places if not place.is_dir()]
        if missing:
            raise InputError(missing[0], [": is no folder."], "Name a folder of runs, or a run.")
        self._places = tuple(places)

    @property
    def home(self) -> Path:
        """Where annotations are kept: beside the runs."""
        first = self._places[0]
        return first.parent if _is_run(first) else first

    def paths(self) -> dict[str, Path]:
        """Each run's name and folder, the latest name first. Links that lead elsewhere are not followed."""
        found: dict[str, Path] = {}
        for place in self._places:
            inside = (
                [place]
                if _is_run(place)
                else [each for each in place.iterdir() if not each.is_symlink()]
            )
            found.update({each.name: each for each in inside if _is_run(each)})
        return dict(sorted(found.items(), reverse=True))

    def find(self, name: str) -> Path | None:
        """The folder of the run of this name; None if there is none."""
        return self.paths().get(name)

    def runs(self) -> list[RunListing]:
        """The runs for the list, the latest begun first; damaged ones are left out."""
        found = [each for name, path in self.paths().items() if (each := _shelved(name, path))]
        return sorted(found, key=lambda each: each.manifest.started_at, reverse=True)


def _is_run(path: Path) -> bool:
    return (path / "run.json").is_file()


def _shelved(name: str, path: Path) -> RunListing | None:
    try:
        run = Run(RunFolder.open(path))
        return RunListing(name, run.manifest, sum(1 for _ in run.folder.records()))
    except ArchqaError:
        return None
