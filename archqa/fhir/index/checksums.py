"""Checks files against the `SHA256SUMS` beside them (the format of `sha256sum`)."""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from archqa.errors import InputError

_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")
_NAMES = ("SHA256SUMS", "SHA256SUMS.txt", "sha256sums.txt")


def verify_checksums(paths: Iterable[Path]) -> int:
    """Check every file that a list beside it names; how many were checked.

    Raises `InputError` with every file whose content differs, and every line that cannot be read.
    """
    checked = 0
    lists: dict[Path, dict[str, str]] = {}
    mistakes: dict[Path, list[str]] = {}
    for path in paths:
        folder = path.parent
        if folder not in lists:
            lists[folder] = _read_list(folder, mistakes)
        expected = lists[folder].get(path.name)
        if expected is None:
            continue
        checked += 1
        if digest(path) != expected:
            mistakes.setdefault(folder, []).append(
                f"/{path.name}: differs from its SHA-256 in the list."
            )
    if mistakes:
        raise InputError(*_together(mistakes), "Fetch the file anew, or mend the list.")
    return checked


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _together(mistakes: dict[Path, list[str]]) -> tuple[Path, list[str]]:
    first = next(iter(mistakes))
    others = [f" and {folder}{each}" for folder in list(mistakes)[1:] for each in mistakes[folder]]
    return first, [*mistakes[first], *others]


def _read_list(folder: Path, mistakes: dict[Path, list[str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    path = next((folder / name for name in _NAMES if (folder / name).is_file()), None)
    if path is None:
        return found
    for number, line in enumerate(
        path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1
    ):
        match = _LINE.fullmatch(line.strip())
        if match:
            found[match[2].removeprefix("./")] = match[1].lower()
        elif line.strip():
            mistakes.setdefault(folder, []).append(
                f"/{path.name}:{number}: is no line of a checksum list."
            )
    return found
