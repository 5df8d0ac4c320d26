"""Files that hold record text: readable by their owner alone, never half-written, locked between
processes; and one error for whatever keeps a file from being read or written.
"""

import errno
import glob
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from archqa.errors import ArchqaError, CallerError, StorageError

try:
    import fcntl
except ImportError:  # Not on Windows.
    fcntl = None  # type: ignore[assignment]

_MODE = 0o600
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Not on Windows.

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_ADVICE = (
    (_NO_SPACE, "Free some space, or name another place. A run goes on with --resume."),
    (
        {errno.EACCES, errno.EPERM, errno.EROFS},
        "Change its permissions, or name another place.",
    ),
    (
        {errno.EISDIR, errno.ENOTDIR, errno.EEXIST},
        "A file or a folder is in its place: move that away, or name another place.",
    ),
    (
        {errno.EMFILE, errno.ENFILE},
        "Raise the limit of open files (ulimit -n), or lower --jobs.",
    ),
    ({errno.ENAMETOOLONG}, "Name a shorter path."),
    ({errno.ENOENT}, "Check the path: was it moved or deleted meanwhile?"),
)
"""What to do about the errors of the operating system."""

_WITHOUT_LOCKS = {
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOLCK,
    errno.EINVAL,
}
"""What file systems answer that cannot lock, some network file systems among them."""


def write_private_text(path: Path, text: str) -> None:
    """Write a whole file in UTF-8; a lone surrogate is written as its escape. Raises `OSError`."""
    write_private_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_private_bytes(path: Path, content: bytes) -> None:
    """Write a whole file with mode 0600. Raises `OSError`, and then leaves what was there.

    A new file takes the name of the former one, so that neither its mode nor a reader who has it
    open sees the content. What is no regular file, such as `/dev/stdout`, is written to directly.
    """
    with private_draft(path) as file:
        file.write(content)


@contextmanager
def private_draft(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the name `path` once the block has ended without an exception.

    Raises `OSError` with `path` as its file name.
    """
    try:
        # Asked of the path itself: what a pipe's entry under /dev/fd resolves to does not exist.
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                yield file
            return
        target = path.resolve()
        draft = target.with_name(f"{_draft_prefix(target)}{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
            draft.replace(target)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        if error.errno and not _names_other_file(error, path):
            error.filename, error.filename2 = str(path), None
        raise


def _names_other_file(error: OSError, path: Path) -> bool:
    """Whether an error names a file, and not the draft of `path`."""
    if not isinstance(error.filename, str):
        return False
    return not Path(error.filename).name.startswith(_draft_prefix(path.resolve()))


def _draft_prefix(path: Path) -> str:
    """How the name of a draft begins. File names have at most 255 bytes, a character up to 4."""
    return f".{path.name[:50]}."


def remove_drafts(path: Path) -> None:
    """Remove the drafts of a file that killed processes left; nobody may be writing it now."""
    for draft in path.parent.glob(f"{glob.escape(_draft_prefix(path))}*"):
        draft.unlink(missing_ok=True)


def open_private_file(path: Path, *, append: bool = False) -> IO[bytes]:
    """Open a file to write anew, or to add to; its folder must be private.

    Raises `OSError`, also for a link.
    """
    change = os.O_APPEND if append else os.O_TRUNC
    flags = os.O_WRONLY | os.O_CREAT | change | _NOFOLLOW
    return os.fdopen(os.open(path, flags, _MODE), "ab" if append else "wb")


class NotPrivate(CallerError):
    """A file or a folder that somebody else may have put there."""


def make_private_folder(folder: Path) -> None:
    """Make a folder for the user alone; one that is there must be so, with all files in it.

    Raises `NotPrivate` for a link, also a hard one, and for what others own, may read or write, and
    `OSError`.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        _check_private(folder, folder)
        for path in folder.iterdir():
            with suppress(FileNotFoundError):  # Another process may be at work there.
                _check_private(path, folder)


def _check_private(path: Path, folder: Path) -> None:
    status = path.lstat()
    is_file = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    is_own = os.name != "posix" or (
        status.st_uid == os.geteuid() and not status.st_mode & 0o077
    )
    if not is_own or not (is_file or stat.S_ISDIR(status.st_mode)):
        raise NotPrivate(
            f"{path} is a link, or is not this user's alone: somebody else may have put it there.\n"
            f"Remove {folder}, and run the command again."
        )


def open_private_log(path: Path) -> IO[str]:
    """Open a file to append lines to; one that others could read becomes private first.

    Raises `OSError`, also where the file belongs to somebody else.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, _MODE)
    return os.fdopen(
        descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n"
    )


@contextmanager
def storage_errors(path: str | Path) -> Iterator[None]:
    """Raise an `OSError` of the block as a `StorageError` that names the path."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from None


def storage_error(error: OSError, path: str | Path | None = None) -> StorageError:
    """The error in two lines: what happened to which path, and what to do.

    `path` is what the user named; without it, the path that the operating system reported. A name
    of a file may show a case id, but never record text.
    """
    name = "The output"  # A stream, such as standard output, has no path.
    if path is not None:
        name = str(path)
    elif error.filename is not None and not isinstance(error.filename, int):
        name = os.fsdecode(error.filename)
    failed = "cannot be read or written"
    if error.errno in _NO_SPACE or error.errno == errno.EROFS:
        failed = "cannot be written"
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    what_to_do = "Check the disk, or name another place."
    for codes, advice in _ADVICE:
        if error.errno in codes:
            what_to_do = advice
    return StorageError(f"{name} {failed}: {reason}.\n{what_to_do}")


class LocksUnsupported(ArchqaError):
    """The file system, or the operating system, has no locks."""


def acquire_lock(path: Path) -> int | None:
    """Create and lock a file; return its descriptor, or None while another process has it.

    The kernel unlocks the file when its owner ends, however it ends. A lock belongs to the
    descriptor: a second one in the same process is refused as well. Raises `LocksUnsupported`, and
    `OSError` if the file cannot be made.
    """
    while True:
        _check_locks_supported()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | _NOFOLLOW
        descriptor = os.open(path, flags, _MODE)
        try:
            if not _lock(descriptor, exclusive=True):
                os.close(descriptor)
                return None
            if os.fstat(descriptor).st_nlink:
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(
            descriptor
        )  # Its former owner has removed this file: lock the next of its name.


def release_lock(path: Path, descriptor: int) -> None:
    """Remove a file that is locked, and unlock it."""
    with suppress(OSError):  # A folder that vanished took its lock with it.
        path.unlink()
    os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether another process has the lock now. Raises `OSError` if that cannot be read."""
    try:
        _check_locks_supported()
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, LocksUnsupported):
        return False
    try:
        return not _lock(descriptor, exclusive=False)
    except LocksUnsupported:
        return False
    finally:
        os.close(descriptor)


def _check_locks_supported() -> None:
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
        if error.errno in _WITHOUT_LOCKS:
            raise LocksUnsupported("This file system has no locks.") from None
        raise
    return True
