"""Rows of a table or of a JSON list, each of which knows where it stands."""

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
    """One row, with complaints that name its place."""

    def value(self, name: str) -> Any:
        """The field of that name; None if it is absent or, in a table, empty."""
        ...

    def complain(self, name: str, what: str) -> None:
        """Note what is wrong with the field of that name."""
        ...


@dataclass(frozen=True)
class _CsvRow:
    """A line of a table: `line` is where it begins."""

    values: Mapping[str, str]
    line: int
    mistakes: FileErrors

    def value(self, name: str) -> str | None:
        return self.values.get(name) or None

    def complain(self, name: str, what: str) -> None:
        self.mistakes.add(f":{self.line}", f"{name} {what}")


def read_rows(source: Source, mistakes: FileErrors) -> Sequence[Row]:
    """The rows of a CSV or JSON file; what is wrong with its form is noted."""
    if isinstance(source.content, JsonContent):
        return source.content.entries(mistakes)
    rows = list(_table(source.text, mistakes))
    if not rows:
        mistakes.add("", "the table has no rows.")
    return rows


def _table(text: str, mistakes: FileErrors) -> Iterator[_CsvRow]:
    with _room_for_big_fields():
        lines = csv.reader(io.StringIO(text.lstrip(), newline=""), strict=True)
        begun = text[: len(text) - len(text.lstrip())].count("\n") + 1
        blank = begun - 1
        try:
            head = [name.strip() for name in next(lines)]
            for fields in lines:
                first, begun = begun + 1, lines.line_num + blank
                if len(fields) == len(head):
                    yield _CsvRow(dict(zip(head, fields, strict=True)), first, mistakes)
                elif fields:
                    mistakes.add(
                        f":{first}", f"the row has {len(fields)} fields, the head has {len(head)}."
                    )
        except csv.Error as error:
            mistakes.add(f":{lines.line_num + blank}", f"not CSV: {error}.")


@contextmanager
def _room_for_big_fields() -> Iterator[None]:
    """One question has 2,257 gold ids, which is more than the csv module's limit on one field leaves room for."""
    limit = csv.field_size_limit(MAX_FILE_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(limit)
