"""Files that hold record text: readable by their owner alone, and never half-written."""

import glob
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_MODE = 0o600


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
        with _open_draft(path) as file:
            yield file
    except OSError as error:
        if error.errno and not _names_other_file(error, path):
            error.filename, error.filename2 = str(path), None
        raise


@contextmanager
def _open_draft(path: Path) -> Iterator[IO[bytes]]:
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


def open_private_file(path: Path) -> IO[bytes]:
    """Open a file to write anew; its folder must be private. Raises `OSError`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
    return os.fdopen(descriptor, "wb")


def remove_drafts(path: Path) -> None:
    """Remove the drafts of a file that killed processes left; nobody may be writing it now."""
    for draft in path.parent.glob(f"{glob.escape(_draft_prefix(path))}*"):
        draft.unlink(missing_ok=True)


def _draft_prefix(path: Path) -> str:
    """How the name of a draft begins. File names have at most 255 bytes, a character up to 4."""
    return f".{path.name[:50]}."


def _names_other_file(error: OSError, path: Path) -> bool:
    """Whether an error names a file, and not the draft of `path`."""
    if not isinstance(error.filename, str):
        return False
    return not Path(error.filename).name.startswith(_draft_prefix(path.resolve()))


def open_private_log(path: Path) -> IO[str]:
    """Open a file to append lines to; one that others could read becomes private first.

    Raises `OSError`, also where the file belongs to somebody else.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, _MODE)
    return os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n")
