"""A cohort: cases as JSON Lines, one a line, read one at a time however many there are.

The same object a line as in our JSON list. Everything is checked once, line by line, before the first case is used.
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

_MOST_TOLD = 100
"""Mistakes told of one file: all of a hand-written one, the first of a broken export."""

ReadCase = Callable[[bytes, str], Item]
"""Reads one case of one line, named by a path for messages; raises `InputError`."""


class CasesOnDisk(Sequence[Item]):
    """The cases of a checked file, read when they are asked for."""

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
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> "CasesOnDisk": ...
    def __getitem__(self, place: int | slice) -> "Item | CasesOnDisk":
        """One case, or a part of them that stays on disk."""
        if isinstance(place, slice):
            return self.at(range(len(self))[place])
        return self._read(self.line(place), str(self._path))

    def line(self, place: int) -> bytes:
        """One case as a JSON line."""
        with self._path.open("rb") as file:
            file.seek(self._offsets[place])
            return file.readline()

    def __iter__(self) -> Iterator[Item]:
        return (self[place] for place in range(len(self)))

    def at(self, places: Iterable[int]) -> "CasesOnDisk":
        """The cases at these places."""
        chosen = list(places)
        ids, offsets = (
            [self.ids[each] for each in chosen],
            array("Q", (self._offsets[each] for each in chosen)),
        )
        return type(self)(self._path, self._read, ids, offsets)


def open_jsonl(path: Path, read: ReadCase) -> tuple[CasesOnDisk, str]:
    """The cases of a file and its sha256. Raises `InputError` with the mistakes of all its lines, by their numbers."""
    ids: dict[str, int] = {}
    offsets, digest, found = array("Q"), hashlib.sha256(), LineErrors(path)
    with path.open("rb") as file:
        offset = 0
        for number, line in enumerate(file, start=1):
            digest.update(line)
            case = found.parse_line(line, number, read)
            if case is not None and found.is_new(case.id, number, ids):
                ids[case.id] = number
                offsets.append(offset)
            offset += len(line)
    found.settle(empty=not ids)
    return CasesOnDisk(path, read, tuple(ids), offsets), digest.hexdigest()


class LineErrors:
    """What is wrong, line by line."""

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

    def is_new(self, case_id: str, number: int, ids: dict[str, int]) -> bool:
        """Whether no earlier line has this id."""
        if case_id not in ids:
            return True
        self._add(number, f"the case id is taken by line {ids[case_id]}; give each its own.")
        return False

    def settle(self, *, empty: bool) -> None:
        """Raise `InputError` if anything was wrong, or nothing was there."""
        if empty and not self._count:
            self._mistakes.add("", "the file holds no case.")
        self._mistakes.settle()

    def _add(self, number: int, what: str) -> None:
        self._count += 1
        if self._count <= _MOST_TOLD:
            self._mistakes.add(f":{number}", what)
