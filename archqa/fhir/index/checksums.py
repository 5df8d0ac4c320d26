"""Verify files with the `SHA256SUMS` in their folder (the format of `sha256sum`)."""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from archqa.errors import InputError

_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")
_LIST_NAMES = ("SHA256SUMS", "SHA256SUMS.txt", "sha256sums.txt")


def verify_checksums(paths: Iterable[Path]) -> int:
    """Verify every file that a checksum list in its folder names, and return their number.

    Raises `InputError` with every file that differs and every line that cannot be read.
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
            mistake = f"/{path.name}: differs from its SHA-256 in the list."
            mistakes.setdefault(folder, []).append(mistake)
    if mistakes:
        raise _input_error(mistakes)
    return checked


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _input_error(mistakes: dict[Path, list[str]]) -> InputError:
    folder, *more_folders = mistakes
    texts = list(mistakes[folder])
    for more in more_folders:
        texts += [f" and {more}{mistake}" for mistake in mistakes[more]]
    return InputError(folder, texts, "Fetch the file anew, or correct the list.")


def _read_list(folder: Path, mistakes: dict[Path, list[str]]) -> dict[str, str]:
    """Return the checksums of a folder by file name; add bad lines to `mistakes`."""
    path = _list_path(folder)
    if path is None:
        return {}
    checksums: dict[str, str] = {}
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.fullmatch(line.strip())
        if match:
            checksums[match[2].removeprefix("./")] = match[1].lower()
        elif line.strip():
            mistake = f"/{path.name}:{number}: is no line of a checksum list."
            mistakes.setdefault(folder, []).append(mistake)
    return checksums


def _list_path(folder: Path) -> Path | None:
    for name in _LIST_NAMES:
        if (folder / name).is_file():
            return folder / name
    return None
