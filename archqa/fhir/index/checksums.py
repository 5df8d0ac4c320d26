"""Verify files with the checksum lists of their folder and of the folders above it."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from archqa.errors import InputError
from archqa.fhir.index.checksum_list import LIST_NAMES, ChecksumList, lists_in

_LEVELS_ABOVE = 2
"""Folders above the named one that may have a list: MIMIC-IV on FHIR has it one above `fhir/`."""

_MAX_NAMED_FILES = 20
"""Files without a checksum that are remarked by name."""

_FIX = "Nothing was loaded. Fetch the files anew, or correct the list."


class ChecksumReport(NamedTuple):
    """How many files were verified, and what should be known of the others."""

    checked: int
    remarks: tuple[str, ...]


def verify_checksums(named_paths: Sequence[Path], files: Iterable[Path]) -> ChecksumReport:
    """Verify every file that a list names, and that named folders hold all that lists name in them.

    Lists stand in the folder of a file or a folder above it; those above a named path count only if
    they name something of it. Raises `InputError` with every file that differs or is absent and
    every line that cannot be read.
    """
    verification = _Verification()
    for path in named_paths:
        verification.add_lists_for(path)
    for file in files:
        verification.verify(file)
    return verification.report()


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Verification:
    """The lists of a load, and what was seen of its files so far."""

    def __init__(self) -> None:
        self._lists: dict[Path, ChecksumList] = {}
        self._mistakes: dict[str, None] = {}  # Two spellings of a folder find the same ones.
        self._unnamed: list[str] = []
        self._checked = 0

    def add_lists_for(self, named_path: Path) -> None:
        """Take the lists that describe a named path, and check that a folder is complete."""
        for checksums in _lists_for(named_path):
            self._lists[checksums.path] = checksums
            for mistake in checksums.mistakes:
                self._mistakes[f"{checksums.path}{mistake}"] = None
            if named_path.is_dir():
                self._require_files(checksums, named_path)

    def verify(self, file: Path) -> None:
        """Compare a file with every list that names it."""
        names = [(checksums, checksums.name_of(file)) for checksums in self._lists.values()]
        covering = [(checksums, name) for checksums, name in names if not name.startswith("../")]
        naming = [(checksums, name) for checksums, name in covering if name in checksums.digests]
        if naming:
            self._checked += 1
            self._compare(file, naming)
        elif covering:
            checksums, _ = covering[0]
            self._unnamed.append(f"{file}: {checksums.path.name} does not name it")

    def report(self) -> ChecksumReport:
        """Return the result. Raises `InputError` with all mistakes."""
        if self._mistakes:
            raise InputError("", self._mistakes, _FIX)
        remarks = []
        for checksums in self._lists.values():
            remarks += checksums.remarks
        for unnamed in self._unnamed[:_MAX_NAMED_FILES]:
            remarks.append(f"{unnamed}; it is loaded unchecked")
        rest = len(self._unnamed) - _MAX_NAMED_FILES
        if rest > 0:
            remarks.append(f"{rest} more files are not named in their checksum lists")
        return ChecksumReport(self._checked, tuple(remarks))

    def _require_files(self, checksums: ChecksumList, folder: Path) -> None:
        for name in checksums.names_in(folder):
            if not (checksums.folder / name).is_file():
                reason = f"is named in {checksums.path.name} and is not there."
                self._mistakes[f"{checksums.shown_path(name)}: {reason}"] = None

    def _compare(self, file: Path, naming: Sequence[tuple[ChecksumList, str]]) -> None:
        actual = digest(file)
        for checksums, name in naming:
            if checksums.digests[name] != actual:
                reason = f"differs from its SHA-256 in {checksums.path.name}."
                self._mistakes[f"{checksums.shown_path(name)}: {reason}"] = None


def _lists_for(named_path: Path) -> Iterator[ChecksumList]:
    """Yield the lists in a named folder, or beside a named file, and those above that name it."""
    folder = named_path
    if named_path.is_dir():
        yield from _lists_below(named_path)
    else:
        folder = named_path.parent
        yield from lists_in(folder)
    for _ in range(_LEVELS_ABOVE):
        folder = Path(os.path.normpath(folder / ".."))
        for checksums in lists_in(folder):
            if any(checksums.names_in(named_path)):
                yield checksums


def _lists_below(folder: Path) -> Iterator[ChecksumList]:
    list_paths = [path for path in folder.rglob("*") if path.name in LIST_NAMES]
    for list_folder in sorted({path.parent for path in list_paths}):
        yield from lists_in(list_folder)
