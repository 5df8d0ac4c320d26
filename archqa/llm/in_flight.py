"""The requests that the processes of this machine are asking now, so that none is paid for twice.

Each is a locked file in a folder next to the cache. The kernel unlocks the file of a process that
dies, and whoever waits for its reply asks in its place.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from archqa.safety.file_lock import LocksUnsupported, acquire_lock, release_lock

MAX_WAIT = 600.0
"""Seconds to wait for another process's reply: one that is stopped must not stop others."""

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5
"""Seconds between two looks at a request of another process."""

_STALE_AGE = 3600.0
"""Seconds after which the file of a killed process is cleared away."""


class InFlightFiles:
    """See `InFlightRequests`. Where files cannot be locked, every request is the caller's to ask.

    `is_needed` tells whether replies are still shared: without a cache, waiting helps nobody.
    """

    def __init__(self, folder: Path, is_needed: Callable[[], bool] = lambda: True) -> None:
        self._folder = folder
        self._is_needed = is_needed
        self._descriptors: dict[str, int] = {}
        self._works = True
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._clear_stale_files()
        except (OSError, LocksUnsupported):
            self._works = False

    async def acquire(self, key: str) -> bool:
        """Return True as soon as nobody else asks this request; the caller may ask it then."""
        deadline = time.monotonic() + MAX_WAIT
        pause = _FIRST_PAUSE
        while not self._try_to_acquire(key) and time.monotonic() < deadline:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return True

    def release(self, key: str) -> None:
        """The request has ended, whatever the outcome."""
        descriptor = self._descriptors.pop(key, None)
        if descriptor is not None:
            release_lock(self._folder / key, descriptor)

    def close(self) -> None:
        """Release what is left."""
        for key in tuple(self._descriptors):
            self.release(key)

    def _try_to_acquire(self, key: str) -> bool:
        """Whether the request is ours, or cannot be anybody's."""
        if not (self._works and self._is_needed()):
            return True
        try:
            descriptor = acquire_lock(self._folder / key)
        except (OSError, LocksUnsupported):
            self._works = False
            return True
        if descriptor is None:
            return False
        self._descriptors[key] = descriptor
        return True

    def _clear_stale_files(self) -> None:
        newest = time.time() - _STALE_AGE
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < newest:
                    self._clear(path)

    def _clear(self, path: Path) -> None:
        descriptor = acquire_lock(path)
        if descriptor is not None:
            release_lock(path, descriptor)
