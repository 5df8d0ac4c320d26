"""A cohort as Parquet: one row a case, columns named as the fields of a JSON line."""

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

_BATCH_ROWS = 1000
"""Rows in memory at a time."""

_CHUNK_BYTES = 2**20
"""Bytes read at a time for the fingerprint."""


def open_parquet(path: Path, read: ReadCase) -> tuple["CasesInParquet", str]:
    """The cases of a file and its SHA-256. Raises `InputError` with the errors of all its rows."""
    rows = _Rows(path)
    ids: dict[str, int] = {}
    row_numbers = array("Q")
    errors = LineErrors(path)
    for number in range(len(rows)):
        case = errors.parse_line(rows[number], number + 1, read)
        if case is not None and errors.check_new_id(case.id, number + 1, ids):
            ids[case.id] = number + 1
            row_numbers.append(number)
    errors.raise_if_any(empty=not ids)
    return CasesInParquet(path, read, tuple(ids), row_numbers), _sha256(path)


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
        self._file = _parquet_file(path)
        metadata = self._file.metadata
        sizes = []
        for group in range(metadata.num_row_groups):
            sizes.append(metadata.row_group(group).num_rows)
        self._starts: list[int] = [0, *accumulate(sizes)]
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
        return _as_line(self._batch[number - self._batch_start])

    def _seek(self, number: int) -> None:
        """Start reading at the row's group: the rows before it in the group must be read as well."""
        group = bisect_right(self._starts, number) - 1
        groups = list(range(group, len(self._starts) - 1))
        self._batches = self._file.iter_batches(_BATCH_ROWS, row_groups=groups)
        self._batch_start = self._batch_end = self._starts[group]
        self._batch = []


def _as_line(row: dict[str, Any]) -> bytes:
    text = json.dumps(_without_nulls(row), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


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


def _parquet_file(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("Reading Parquet", "ray") from None
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError):
        advice = "Name a case file; JSON Lines will do as well."
        raise InputError(path, [": is not a Parquet file."], advice) from None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
