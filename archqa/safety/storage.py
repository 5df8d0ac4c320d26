"""One error for whatever keeps a file from being read or written: a full disk, a missing right."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from archqa.errors import StorageError

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_RIGHT = {errno.EACCES, errno.EPERM, errno.EROFS}
_WRONG_KIND = {errno.EISDIR, errno.ENOTDIR, errno.EEXIST}
_TOO_MANY = {errno.EMFILE, errno.ENFILE}


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
    name = _name_of(error) if path is None else str(path)
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return StorageError(f"{name} {_what_failed(error.errno)}: {reason}.\n{_advice(error.errno)}")


def _name_of(error: OSError) -> str:
    """The path of an error; a stream, such as standard output, has none."""
    if error.filename is None or isinstance(error.filename, int):
        return "The output"
    return os.fsdecode(error.filename)


def _what_failed(code: int | None) -> str:
    if code in _NO_SPACE or code == errno.EROFS:
        return "cannot be written"
    return "cannot be read or written"


def _advice(code: int | None) -> str:
    if code in _NO_SPACE:
        return "Free some space, or name another place. A run goes on with --resume."
    if code in _NO_RIGHT:
        return "Change its permissions, or name another place."
    if code in _WRONG_KIND:
        return "A file or a folder is in its place: move that away, or name another place."
    if code in _TOO_MANY:
        return "Raise the limit of open files (ulimit -n), or lower --jobs."
    if code == errno.ENAMETOOLONG:
        return "Name a shorter path."
    if code == errno.ENOENT:
        return "Check the path: was it moved or deleted meanwhile?"
    return "Check the disk, or name another place."
