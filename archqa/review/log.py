"""The log of reviews of one case set: whole lines are appended under a lock, none is changed."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from archqa.errors import InputError, StorageError
from archqa.review.event import ReviewEvent
from archqa.safety.files import LocksUnsupported, acquire_lock, release_lock, storage_errors

_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.02


class ReadLog(NamedTuple):
    """A log as it was read: its whole lines, and their events in the order of saving."""

    content: bytes = b""
    events: tuple[ReviewEvent, ...] = ()


NOTHING_READ = ReadLog()


def read_log(path: Path, known: ReadLog = NOTHING_READ) -> ReadLog:
    """The log as it is now; of one that goes on from `known`, only the new lines are parsed.

    A last line without its end was never confirmed to anybody and does not count. Raises
    `InputError` for a damaged file: appending to it would bury the damage.
    """
    with storage_errors(path):
        content = path.read_bytes() if path.is_file() else b""
    content = content[: content.rfind(b"\n") + 1]
    if content == known.content:
        return known
    if not content.startswith(known.content):
        known = NOTHING_READ
    new_lines = content[len(known.content) :].split(b"\n")[:-1]
    try:
        events = tuple(map(ReviewEvent.model_validate_json, new_lines))
    except (ValueError, RecursionError):
        fix = "Repair the file, or move it away; it is not overwritten."
        raise InputError(path, [": is not a log of reviews."], fix) from None
    return ReadLog(content, known.events + events)


def append_events(path: Path, events: Sequence[ReviewEvent]) -> None:
    """Append events, all or none; they are on disk when this returns. Hold the lock.

    Raises `StorageError`.
    """
    lines = "".join(f"{event.model_dump_json()}\n" for event in events)
    is_new = not path.exists()
    with storage_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = _drop_unfinished_line(descriptor)
            try:
                _write(descriptor, lines.encode("utf-8", "backslashreplace"))
            except BaseException:
                os.ftruncate(descriptor, size)
                if is_new:
                    path.unlink()
                raise
        finally:
            os.close(descriptor)


@contextmanager
def log_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a log against other processes and threads. Raises `StorageError`."""
    lock_path = path.with_name(f"{path.name}.lock")
    with storage_errors(lock_path):
        try:
            descriptor = _wait_for_lock(lock_path)
        except LocksUnsupported:
            descriptor = None
    try:
        yield
    finally:
        if descriptor is not None:
            release_lock(lock_path, descriptor)


def _wait_for_lock(path: Path) -> int:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        descriptor = acquire_lock(path)
        if descriptor is not None:
            return descriptor
        if time.monotonic() > deadline:
            raise StorageError(f"Another process keeps {path} locked.\nSave again in a moment.")
        time.sleep(_PAUSE_SECONDS)


def _drop_unfinished_line(descriptor: int) -> int:
    """Cut off what follows the last line end; return the size of the rest."""
    size = os.fstat(descriptor).st_size
    content = os.pread(descriptor, size, 0)
    whole = content.rfind(b"\n") + 1
    if whole < size:
        os.ftruncate(descriptor, whole)
    return whole


def _write(descriptor: int, content: bytes) -> None:
    written = 0
    while written < len(content):
        written += os.write(descriptor, content[written:])
    os.fsync(descriptor)
