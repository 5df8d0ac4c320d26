"""Rows of a CSV file or a JSON list, which know their position for error messages."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from archqa.tasks.files.json_node import JsonContent
from archqa.tasks.files.mistakes import FileErrors
from archqa.tasks.files.source import MAX_FILE_BYTES, Source


class Row(Protocol):
    """One row, whose errors name its position."""

    def value(self, name: str) -> Any:
        """The field of that name; None if it is absent or, in a table, empty."""
        ...

    def add_error(self, name: str, problem: str) -> None:
        """Record an error in the field of that name."""
        ...


@dataclass(frozen=True)
class _CsvRow:
    """A row of a CSV file; `line` is its first line."""

    values: Mapping[str, str]
    line: int
    mistakes: FileErrors

    def value(self, name: str) -> str | None:
        return self.values.get(name) or None

    def add_error(self, name: str, problem: str) -> None:
        self.mistakes.add(f":{self.line}", f"{name} {problem}")


def read_rows(source: Source, mistakes: FileErrors) -> Sequence[Row]:
    """The rows of a CSV or JSON file; errors in its form are recorded."""
    if isinstance(source.content, JsonContent):
        return source.content.entries(mistakes)
    rows = list(_csv_rows(source.text, mistakes))
    if not rows:
        mistakes.add("", "the table has no rows.")
    return rows


def _csv_rows(text: str, mistakes: FileErrors) -> Iterator[_CsvRow]:
    with large_csv_fields():
        lines = csv.reader(io.StringIO(text.lstrip(), newline=""), strict=True)
        blank_lines = text[: len(text) - len(text.lstrip())].count("\n")
        last_line = blank_lines + 1
        try:
            header = [name.strip() for name in next(lines)]
            for fields in lines:
                first_line, last_line = last_line + 1, lines.line_num + blank_lines
                if len(fields) == len(header):
                    values = dict(zip(header, fields, strict=True))
                    yield _CsvRow(values, first_line, mistakes)
                elif fields:
                    mistakes.add(
                        f":{first_line}",
                        f"the row has {len(fields)} fields, the head has {len(header)}.",
                    )
        except csv.Error as error:
            mistakes.add(f":{lines.line_num + blank_lines}", f"not CSV: {error}.")


@contextmanager
def large_csv_fields() -> Iterator[None]:
    """Raise the csv module's limit on a field: a question with 2,257 gold ids exceeds it."""
    limit = csv.field_size_limit(MAX_FILE_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(limit)
