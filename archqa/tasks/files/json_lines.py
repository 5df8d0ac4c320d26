"""A cohort: cases as JSON Lines, which stay on disk and are read one at a time.

Each line is an object of our JSON list. All lines are checked once, before the first case is used.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

from archqa.core.question import Item
from archqa.errors import InputError
from archqa.tasks.files.mistakes import FileErrors

JSONL_SUFFIXES = frozenset({".jsonl", ".ndjson"})

_MAX_ERRORS = 100
"""Errors reported of one file: all of a hand-written one, the first of a broken export."""

ReadCase = Callable[[bytes, str], Item]
"""Reads the case of a line of the file at a path, which messages name; raises `InputError`."""


class CasesOnDisk(Sequence[Item]):
    """The cases of a checked file, read on access."""

    def __init__(
        self, path: Path, read: ReadCase, ids: Sequence[str], offsets: Sequence[int]
    ) -> None:
        self._path = path
        self._read = read
        self._offsets = offsets
        self.ids = tuple(ids)

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> "CasesOnDisk": ...
    def __getitem__(self, index: int | slice) -> "Item | CasesOnDisk":
        """One case, or a part of the cases that stays on disk."""
        if isinstance(index, slice):
            return self.select(range(len(self))[index])
        return self._read(self.line(index), str(self._path))

    def line(self, index: int) -> bytes:
        """One case as a JSON line."""
        with self._path.open("rb") as file:
            file.seek(self._offsets[index])
            return file.readline()

    def __iter__(self) -> Iterator[Item]:
        return (self[index] for index in range(len(self)))

    def select(self, indices: Iterable[int]) -> "CasesOnDisk":
        """The cases at these indices."""
        ids: list[str] = []
        offsets = array("Q")
        for index in indices:
            ids.append(self.ids[index])
            offsets.append(self._offsets[index])
        return type(self)(self._path, self._read, ids, offsets)


def open_jsonl(path: Path, read: ReadCase) -> tuple[CasesOnDisk, str]:
    """The cases of a file and its SHA-256. Raises `InputError` with the errors of all its lines."""
    ids: dict[str, int] = {}
    offsets = array("Q")
    digest = hashlib.sha256()
    errors = LineErrors(path)
    with path.open("rb") as file:
        offset = 0
        for number, line in enumerate(file, start=1):
            digest.update(line)
            case = errors.parse_line(line, number, read)
            if case is not None and errors.check_new_id(case.id, number, ids):
                ids[case.id] = number
                offsets.append(offset)
            offset += len(line)
    errors.raise_if_any(empty=not ids)
    return CasesOnDisk(path, read, tuple(ids), offsets), digest.hexdigest()


class LineErrors:
    """The errors of a file, by line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mistakes = FileErrors(str(path), "One case a line; data/README.md shows its fields.")
        self._count = 0

    def parse_line(self, line: bytes, number: int, read: ReadCase) -> Item | None:
        """The case of a line; None if the line is blank or wrong."""
        if not line.strip():
            return None
        try:
            return read(line, "")
        except InputError as error:
            for mistake in error.mistakes:
                self._add(number, mistake.removeprefix(":1").removeprefix(": "))
            return None

    def check_new_id(self, case_id: str, number: int, ids: dict[str, int]) -> bool:
        """Whether no earlier line has this id; records an error otherwise."""
        if case_id not in ids:
            return True
        self._add(number, f"the case id is taken by line {ids[case_id]}; give each its own.")
        return False

    def raise_if_any(self, *, empty: bool) -> None:
        """Raise `InputError` if there are errors, or no case."""
        if empty and not self._count:
            self._mistakes.add("", "the file holds no case.")
        self._mistakes.raise_if_any()

    def _add(self, number: int, problem: str) -> None:
        self._count += 1
        if self._count <= _MAX_ERRORS:
            self._mistakes.add(f":{number}", problem)
