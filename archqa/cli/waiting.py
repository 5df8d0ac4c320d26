"""Says on stderr that a command still works, once it has worked for a second."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from archqa.cli.console import err_console, is_quiet, print_count, print_notice

SECONDS_OF_SILENCE = 1.0


@contextmanager
def shown_when_slow(activity: str) -> Iterator[None]:
    """Show what is done, and for how long on a terminal, if the block takes more than a second."""
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(activity, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(activity: str, ended: threading.Event) -> None:
    if ended.wait(SECONDS_OF_SILENCE):
        return
    if not err_console.is_terminal or is_quiet():
        print_notice(f"{activity} …")
        return
    with err_console.status(activity):
        ended.wait()


class Counter:
    """A line on stderr that counts what is done, a second apart at least."""

    def __init__(self, total: int, things: str) -> None:
        self._total = total
        self._things = things
        self._shown_at = time.monotonic()
        self._is_shown = False

    def show(self, done: int) -> None:
        """Show the count if a second has passed since it was shown."""
        now = time.monotonic()
        if now - self._shown_at >= SECONDS_OF_SILENCE:
            self._shown_at = now
            self._print(done, is_last=False)

    def finish(self, done: int) -> None:
        """End the line, if there is one."""
        if self._is_shown:
            self._print(done, is_last=True)

    def _print(self, done: int, *, is_last: bool) -> None:
        self._is_shown = True
        print_count(f"archqa: {done} of {self._total} {self._things}", is_last=is_last)
