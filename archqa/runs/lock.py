"""The lock of a run's folder, so that one process at a time works on it."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from archqa.errors import CallerError
from archqa.safety.file_lock import LocksUnsupported, acquire_lock, is_locked, release_lock
from archqa.safety.storage import storage_errors

LOCK_NAME = "run.lock"
"""The file in a run's folder that its process holds; it is removed at the end."""

NO_LOCKS = (
    "The file system has no locks: make sure that no other process works on this run's folder."
)


class RunLocked(CallerError):
    """Another process works on the run."""


@contextmanager
def run_lock(folder: Path) -> Iterator[str]:
    """Hold the lock of a run's folder; yields a remark, empty unless locks do not exist here.

    The kernel releases the lock when the process ends, even by a kill. Raises `RunLocked`, which
    says who holds it, and `StorageError`.
    """
    path = folder / LOCK_NAME
    try:
        with storage_errors(folder):
            descriptor = acquire_lock(path)
    except LocksUnsupported:
        yield NO_LOCKS
        return
    if descriptor is None:
        raise _run_locked(folder)
    try:
        _write_owner(descriptor)
        yield ""
    finally:
        release_lock(path, descriptor)


def check_not_locked(folder: Path) -> None:
    """Raise `RunLocked` if another process works on the run."""
    with storage_errors(folder):
        locked = is_locked(folder / LOCK_NAME)
    if locked:
        raise _run_locked(folder)


def _write_owner(descriptor: int) -> None:
    """Write who holds the lock; a full disk does not matter, since the lock itself needs no byte."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def _run_locked(folder: Path) -> RunLocked:
    return RunLocked(
        f"{folder} is being worked on by {_owner(folder / LOCK_NAME)}.\n"
        "Wait until it ends, or stop it and go on with --resume."
    )


def _owner(path: Path) -> str:
    """Who holds a lock, in words."""
    try:
        owner = json.loads(path.read_bytes())
        process = f"process {int(owner['pid'])} on {owner['host']}"
        return f"{process} since {datetime.fromisoformat(owner['since']):%Y-%m-%d %H:%M:%S} UTC"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
