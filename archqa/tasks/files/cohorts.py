"""A cohort: cases as JSON Lines or Parquet, read one at a time.

A line is an object of our JSON list; a row of Parquet has its fields as columns. All of a file is
checked once, before the first case is used. The cases of a large file stay on disk.
"""

import hashlib
import json
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

from archqa.core.question import Item
from archqa.errors import InputError, MissingExtra
from archqa.tasks.files.mistakes import FileErrors

JSONL_SUFFIXES = frozenset({".jsonl", ".ndjson"})
PARQUET_SUFFIX = ".parquet"

MAX_BYTES_IN_MEMORY = 8 * 2**20
"""Size of a file whose cases stay in memory once they are checked: thousands of questions, hundreds
of notes. Those of a larger file are read from disk whenever they are needed.
"""

_BATCH_ROWS = 1000
"""Rows of a Parquet file in memory at a time."""

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


def open_jsonl(path: Path, read: ReadCase) -> tuple[Sequence[Item], str]:
    """The cases of a file and its SHA-256. Raises `InputError` with the errors of all its lines."""
    digest = hashlib.sha256()

    def lines() -> Iterator[tuple[int, bytes]]:
        offset = 0
        with path.open("rb") as file:
            for line in file:
                digest.update(line)
                yield offset, line
                offset += len(line)

    cases = _checked_cases(CasesOnDisk, path, read, lines())
    return cases, digest.hexdigest()


def open_parquet(path: Path, read: ReadCase) -> tuple[Sequence[Item], str]:
    """The cases of a file and its SHA-256. Raises `InputError` with the errors of all its rows."""
    rows = _Rows(path)
    numbered = ((number, rows[number]) for number in range(len(rows)))
    cases = _checked_cases(CasesInParquet, path, read, numbered)
    with path.open("rb") as file:
        return cases, hashlib.file_digest(file, "sha256").hexdigest()


def _checked_cases(
    on_disk: type[CasesOnDisk],
    path: Path,
    read: ReadCase,
    lines: Iterable[tuple[int, bytes]],
) -> Sequence[Item]:
    """The cases of lines, each with its position in the file."""
    mistakes = FileErrors(
        str(path), "One case a line; data/README.md shows its fields."
    )
    error_count = 0
    line_of: dict[str, int] = {}
    positions = array("Q")
    in_memory: list[Item] | None = (
        [] if path.stat().st_size <= MAX_BYTES_IN_MEMORY else None
    )
    for number, (position, line) in enumerate(lines, start=1):
        if not line.strip():
            continue
        problems = []
        try:
            case = read(line, "")
        except InputError as error:
            for mistake in error.mistakes:
                problems.append(mistake.removeprefix(":1").removeprefix(": "))
        else:
            if case.id in line_of:
                taken = f"the case id is taken by line {line_of[case.id]}; give each its own."
                problems.append(taken)
            else:
                line_of[case.id] = number
                positions.append(position)
                if in_memory is not None:
                    in_memory.append(case)
        for problem in problems:
            error_count += 1
            if error_count <= _MAX_ERRORS:
                mistakes.add(f":{number}", problem)
    if not line_of and not error_count:
        mistakes.add("", "the file holds no case.")
    mistakes.raise_if_any()
    if in_memory is not None:
        return tuple(in_memory)
    return on_disk(path, read, tuple(line_of), positions)


class CasesInParquet(CasesOnDisk):
    """The cases of a checked file, read on access; in file order the file is read once."""

    _rows: "_Rows | None" = None

    def line(self, index: int) -> bytes:
        """One row as a JSON line."""
        if self._rows is None:
            self._rows = _Rows(self._path)
        return self._rows[self._offsets[index]]


class _Rows:
    """The rows of a file as JSON lines, by number."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingExtra("Reading Parquet", "ray") from None
        try:
            self._file: Any = pyarrow.parquet.ParquetFile(path)
        except (pyarrow.ArrowException, OSError):
            advice = "Name a case file; JSON Lines will do as well."
            raise InputError(path, [": is not a Parquet file."], advice) from None
        metadata = self._file.metadata
        self._starts = [0]
        for group in range(metadata.num_row_groups):
            self._starts.append(self._starts[-1] + metadata.row_group(group).num_rows)
        self._batch_start = self._batch_end = 0
        self._batch: list[dict[str, Any]] = []
        self._batches: Iterator[Any] = iter(())
        self._seek(0)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, number: int) -> bytes:
        is_ahead = self._batch_end <= number < self._batch_end + _BATCH_ROWS
        is_in_batch = self._batch_start <= number < self._batch_end
        if not is_ahead and not is_in_batch:
            self._seek(number)
        while number >= self._batch_end:
            self._batch = next(self._batches).to_pylist()
            self._batch_start = self._batch_end
            self._batch_end += len(self._batch)
        row = _without_nulls(self._batch[number - self._batch_start])
        return json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogatepass")

    def _seek(self, number: int) -> None:
        """Start reading at the row's group: the rows before it in the group must be read as well."""
        group = bisect_right(self._starts, number) - 1
        groups = list(range(group, len(self._starts) - 1))
        self._batches = self._file.iter_batches(_BATCH_ROWS, row_groups=groups)
        self._batch_start = self._batch_end = self._starts[group]
        self._batch = []


def _without_nulls(value: Any) -> Any:
    """Drop null fields: a column has them where a case has no such field."""
    if isinstance(value, dict):
        fields = {}
        for name, field in value.items():
            if field is not None:
                fields[name] = _without_nulls(field)
        return fields
    if isinstance(value, list):
        return [_without_nulls(element) for element in value]
    return value
