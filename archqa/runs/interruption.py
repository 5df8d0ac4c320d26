"""A run that was interrupted, and where it can be found again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class RunInterrupted(KeyboardInterrupt):
    """Somebody pressed Ctrl-C; `folder` holds the cases that ended, and the run can be resumed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"The run in {folder} was interrupted; resume it.")
        self.folder = folder


@contextmanager
def naming_run(folder: Path) -> Iterator[None]:
    """Turn `KeyboardInterrupt` into `RunInterrupted`, which names the run's folder."""
    try:
        yield
    except KeyboardInterrupt:
        raise RunInterrupted(folder) from None
