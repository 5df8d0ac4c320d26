"""A cohort as Parquet: a row a case, its columns named as the fields of a JSON line, read a thousand rows at a time."""

import hashlib
import json
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from archqa.errors import InputError, MissingExtra
from archqa.tasks.files.json_lines import CasesOnDisk, LineErrors, ReadCase

PARQUET_SUFFIX = ".parquet"

_AT_ONCE = 1000
"""Rows in memory."""

_CHUNK = 2**20
"""Bytes read at once for the fingerprint."""


def open_parquet(path: Path, read: ReadCase) -> tuple["CasesInParquet", str]:
    """The cases of a file and its sha256. Raises `InputError` with the mistakes of all its rows, by their numbers."""
    rows = _Rows(path)
    ids: dict[str, int] = {}
    places, found = array("Q"), LineErrors(path)
    for number in range(len(rows)):
        case = found.parse_line(rows[number], number + 1, read)
        if case is not None and found.is_new(case.id, number + 1, ids):
            ids[case.id] = number + 1
            places.append(number)
    found.settle(empty=not ids)
    return CasesInParquet(path, read, tuple(ids), places), _sha256(path)


class CasesInParquet(CasesOnDisk):
    """The cases of a checked file, read when they are asked for; in their order that is once through the file."""

    _opened: "_Rows | None" = None

    def line(self, place: int) -> bytes:
        """One row as a JSON line."""
        if self._opened is None:
            self._opened = _Rows(self._path)
        return self._opened[self._offsets[place]]


class _Rows:
    """The rows of a file as JSON lines, by number."""

    def __init__(self, path: Path) -> None:
        self._file = _parquet_file(path)
        groups = range(self._file.metadata.num_row_groups)
        sizes = (self._file.metadata.row_group(each).num_rows for each in groups)
        self._starts: list[int] = [0, *accumulate(sizes)]
        self._first = self._next = 0
        self._held: list[dict[str, Any]] = []
        self._coming: Iterator[Any] = iter(())
        self._go_to(0)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, number: int) -> bytes:
        if (
            not self._next <= number < self._next + _AT_ONCE
            and not self._first <= number < self._next
        ):
            self._go_to(number)
        while number >= self._next:
            self._first, self._held = self._next, next(self._coming).to_pylist()
            self._next += len(self._held)
        return _as_line(self._held[number - self._first])

    def _go_to(self, number: int) -> None:
        """To the beginning of the row's group: what lies before it in there must be read."""
        group = bisect_right(self._starts, number) - 1
        rest = list(range(group, len(self._starts) - 1))
        self._coming = self._file.iter_batches(_AT_ONCE, row_groups=rest)
        self._first = self._next = self._starts[group]
        self._held = []


def _as_line(row: dict[str, Any]) -> bytes:
    return json.dumps(_filled(row), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _filled(value: Any) -> Any:
    """Without fields that are null: a column has them where a case has no such field."""
    if isinstance(value, dict):
        return {name: _filled(each) for name, each in value.items() if each is not None}
    return [_filled(each) for each in value] if isinstance(value, list) else value


def _parquet_file(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("Reading Parquet", "ray") from None
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError):
        raise InputError(
            path, [": is not a Parquet file."], "Name a case file; JSON Lines will do as well."
        ) from None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            digest.update(part)
    return digest.hexdigest()
