"""Verify files with the checksum lists of their folder and of the folders above it.

A list is a file in the format of `sha256sum`, such as `SHA256SUMS`.
"""

import hashlib
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from archqa.errors import InputError

_LIST_NAMES = ("SHA256SUMS", "SHA256SUMS.txt", "sha256sums.txt")
_LINE = re.compile(r"(\\?)([0-9a-fA-F]{64}) [ *](.*\S.*)")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {
    "n": "\n",
    "r": "\r",
    "\\": "\\",
}

_LEVELS_ABOVE = 2
"""Folders above the named one that may have a list: MIMIC-IV on FHIR has it one above `fhir/`."""

_MAX_NAMED_FILES = 20
"""Files without a checksum that are remarked by name."""

_FIX = "Nothing was loaded. Fetch the files anew, or correct the list."


class ChecksumList:
    """The checksums of a list by name, relative to the list's folder.

    `mistakes` are its malformed lines as `:3: what`, `remarks` its names that lead out of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = Path(os.path.normpath(path.parent.absolute()))
        self.digests: dict[str, str] = {}
        self.mistakes: list[str] = []
        self.remarks: list[str] = []

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a list; a file that cannot be read is a list with one mistake."""
        checksums = cls(path)
        try:
            content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        except OSError as error:
            checksums.mistakes.append(f": cannot be read: {error.strerror}.")
            return checksums
        for number, line in enumerate(os.fsdecode(content).split("\n"), start=1):
            if line.strip():
                checksums._add(number, line.rstrip("\r"))
        return checksums

    def _add(self, number: int, line: str) -> None:
        match = _LINE.fullmatch(line)
        if match is None:
            self.mistakes.append(f":{number}: is no line of a checksum list.")
            return
        is_escaped, digest, name = match.groups()
        if is_escaped:
            name = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[0]), name)
        name = posixpath.normpath(name)
        if name.startswith("/") or name.split("/")[0] == "..":
            self.remarks.append(
                f"{self.path}:{number}: names a path outside of its folder; it is ignored"
            )
        elif self.digests.setdefault(name, digest.lower()) != digest.lower():
            self.mistakes.append(
                f":{number}: has another checksum of {_shown(name)} than a line above it."
            )

    def name_of(self, path: Path) -> str:
        """The name under which the list would have this file; it begins with `..` for one outside."""
        relative = os.path.relpath(path, self.folder)
        return Path(relative).as_posix()

    def names_in(self, path: Path) -> Iterator[str]:
        """The names of a file, or of all files in a folder, that the list has."""
        own_name = self.name_of(path)
        has_all = own_name == "." or own_name.split("/")[-1] == ".."
        for name in self.digests:
            if has_all or name == own_name or name.startswith(f"{own_name}/"):
                yield name

    def absent_from(self, folder: Path) -> Iterator[str]:
        """The files of a folder that the list names and that are not there, as mistakes."""
        for name in self.names_in(folder):
            if not (self.folder / name).is_file():
                yield self.mistake_about(
                    name, f"is named in {self.path.name} and is not there."
                )

    def mistake_about(self, name: str, reason: str) -> str:
        """What is wrong with a named file, whose path is shown on one line."""
        path = os.path.normpath(self.path.parent / name)
        return f"{_shown(path)}: {reason}"


def _shown(name: str) -> str:
    return name if name.isprintable() else ascii(name)[1:-1]


class ChecksumReport(NamedTuple):
    """How many files were verified, and what should be known of the others."""

    checked: int
    remarks: tuple[str, ...]


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_checksums(
    named_paths: Sequence[Path], files: Iterable[Path]
) -> ChecksumReport:
    """Verify every file that a list names, and that named folders hold all that lists name in them.

    Lists stand in the folder of a file or a folder above it; those above a named path count only if
    they name something of it. Raises `InputError` with every file that differs or is absent and
    every line that cannot be read.
    """
    lists: dict[Path, ChecksumList] = {}
    mistakes: dict[str, None] = {}  # Two spellings of a folder give the same ones.
    for named_path in named_paths:
        for checksums in _lists_for(named_path):
            lists[checksums.path] = checksums
            for mistake in checksums.mistakes:
                mistakes[f"{checksums.path}{mistake}"] = None
            if named_path.is_dir():
                mistakes.update(dict.fromkeys(checksums.absent_from(named_path)))
    checked = 0
    unnamed = []
    for file in files:
        covering = [
            checksums for checksums in lists.values() if _covers(checksums, file)
        ]
        naming = [
            checksums
            for checksums in covering
            if checksums.name_of(file) in checksums.digests
        ]
        mistakes.update(dict.fromkeys(_differences(file, naming)))
        checked += bool(naming)
        if covering and not naming:
            unnamed.append(f"{file}: {covering[0].path.name} does not name it")
    if mistakes:
        raise InputError("", mistakes, _FIX)
    remarks = []
    for checksums in lists.values():
        remarks += checksums.remarks
    for text in unnamed[:_MAX_NAMED_FILES]:
        remarks.append(f"{text}; it is loaded unchecked")
    if len(unnamed) > _MAX_NAMED_FILES:
        count = len(unnamed) - _MAX_NAMED_FILES
        remarks.append(f"{count} more files are not named in their checksum lists")
    return ChecksumReport(checked, tuple(remarks))


def _covers(checksums: ChecksumList, file: Path) -> bool:
    return not checksums.name_of(file).startswith("../")


def _differences(file: Path, naming: Sequence[ChecksumList]) -> Iterator[str]:
    """Yield the lists whose checksum is not that of a file, as mistakes."""
    actual = digest(file) if naming else ""
    for checksums in naming:
        name = checksums.name_of(file)
        if checksums.digests[name] != actual:
            yield checksums.mistake_about(
                name, f"differs from its SHA-256 in {checksums.path.name}."
            )


def _lists_for(named_path: Path) -> Iterator[ChecksumList]:
    """Yield the lists in a named folder, or beside a named file, and those above that name it."""
    folder = named_path if named_path.is_dir() else named_path.parent
    below = {folder}
    if named_path.is_dir():
        below = {path.parent for path in folder.rglob("*") if path.name in _LIST_NAMES}
    for list_folder in sorted(below):
        yield from _lists_in(list_folder)
    for _ in range(_LEVELS_ABOVE):
        folder = Path(os.path.normpath(folder / ".."))
        for checksums in _lists_in(folder):
            if any(checksums.names_in(named_path)):
                yield checksums


def _lists_in(folder: Path) -> list[ChecksumList]:
    paths = [folder / name for name in _LIST_NAMES]
    return [ChecksumList.read(path) for path in paths if path.is_file()]
