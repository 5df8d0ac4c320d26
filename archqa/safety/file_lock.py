"""Locks between processes: a file that the kernel unlocks when its owner ends, however it ends."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from archqa.errors import ArchqaError

try:
    import fcntl
except ImportError:  # Not on Windows.
    fcntl = None  # type: ignore[assignment]

_UNSUPPORTED = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}
"""What file systems answer that cannot lock, some network file systems among them."""


class LocksUnsupported(ArchqaError):
    """The file system, or the operating system, has no locks."""


def acquire_lock(path: Path) -> int | None:
    """Create and lock a file; return its descriptor, or None while another process has it.

    A lock belongs to the descriptor: a second one in the same process is refused as well. Raises
    `LocksUnsupported`, and `OSError` if the file cannot be made.
    """
    _check_supported()
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _lock(descriptor, exclusive=True):
                os.close(descriptor)
                return None
            if os.fstat(descriptor).st_nlink:
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # Its former owner has removed this file: lock the next of its name.


def release_lock(path: Path, descriptor: int) -> None:
    """Remove a file that is locked, and unlock it."""
    with suppress(OSError):  # A folder that vanished took its lock with it.
        path.unlink()
    os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether another process has the lock now. Raises `OSError` if that cannot be read."""
    try:
        _check_supported()
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, LocksUnsupported):
        return False
    try:
        return not _lock(descriptor, exclusive=False)
    except LocksUnsupported:
        return False
    finally:
        os.close(descriptor)


def _check_supported() -> None:
    if fcntl is None:
        raise LocksUnsupported("This operating system has no file locks.")


def _lock(descriptor: int, *, exclusive: bool) -> bool:
    """Lock a file; return False if another process has it."""
    operation = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        if error.errno in _UNSUPPORTED:
            raise LocksUnsupported("This file system has no locks.") from None
        raise
    return True
