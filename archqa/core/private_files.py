"""Files that hold record text: readable by their owner alone, and never half-written."""

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
    """A new file that takes the name `path` once the block has ended without an exception."""
    target = path.resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    draft = target.with_name(f".{target.name[:50]}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def open_private_log(path: Path) -> IO[str]:
    """Open a file to append lines to; one that others could read becomes private first.

    Raises `OSError`, also where the file belongs to somebody else.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _MODE)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, _MODE)
    return os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n")
