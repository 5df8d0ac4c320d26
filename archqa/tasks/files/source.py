"""Reads a file or standard input: its bytes and fingerprint, and its content as XML, JSON or CSV."""

import csv
import hashlib
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from archqa import resources
from archqa.core.near_misses import near_misses
from archqa.errors import InputError
from archqa.safety.arguments import as_path
from archqa.tasks.files.json_node import JsonContent, parse_json
from archqa.tasks.files.mistakes import FileErrors

MAX_FILE_BYTES = 256 * 2**20
"""Bytes. Far above any case file; it keeps /dev/zero and the like from filling the memory."""

FORMAT_HINT = "Not the ArchEHR-QA format; data/README.md shows it."
_NEITHER = "the file is neither XML nor JSON."


class Node(Protocol):
    """One object of a file (a case, a sentence, a phrase) and its fields, by the names of our JSON.

    No method raises: an error is recorded and a harmless value returned, so that reading goes on.
    """

    def text(self, name: str) -> str:
        """The field's text without white space around it; empty when the file withholds it."""

    def required(self, name: str) -> str:
        """The field's text; a mistake when it is absent or empty."""

    def number(self, name: str) -> int | None:
        """The field's whole number from 0 on; None when the file withholds it."""

    def rows(self, name: str) -> "Sequence[Node]":
        """The objects listed in a field; none when the file withholds it."""

    def expect(self, names: Iterable[str]) -> None:
        """Record an error for fields whose names are typos of `names`."""

    def add_error(self, name: str, problem: str) -> None:
        """Record an error in one field."""


class Content(Protocol):
    """A parsed file."""

    @property
    def format(self) -> Literal["xml", "json", "csv"]:
        """The notation it is written in."""

    @property
    def fields(self) -> frozenset[str]:
        """Names of all fields of its entries, by which a task is recognised."""

    def entries(self, mistakes: FileErrors) -> Sequence[Node]:
        """Its cases, in the order of the file."""


@dataclass(frozen=True)
class CsvContent:
    """The header of a CSV file. ArchEHR-QA has no CSV files, other benchmarks do."""

    fields: frozenset[str]
    format: Literal["csv"] = "csv"

    def entries(self, mistakes: FileErrors) -> list[Node]:
        """None: ArchEHR-QA has no cases in CSV files."""
        mistakes.add("", _NEITHER)
        return []


@dataclass(frozen=True)
class Source:
    """A file as it was read: `path` is its name in messages, `data` its bytes."""

    path: str
    data: bytes = field(repr=False)

    @cached_property
    def sha256(self) -> str:
        """Fingerprint of the bytes, 64 hexadecimal digits."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def text(self) -> str:
        """The file as text without its byte order mark. Raises `InputError` if it is empty, binary or not UTF-8."""
        if not self.data.strip():
            raise InputError(
                self.path, [": the file is empty."], "Name a file that holds cases."
            )
        encoding_mistake = ": the file is UTF-16."
        if self.data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
            if b"\0" in self.data:
                raise InputError(
                    self.path,
                    [": the file is binary."],
                    "Case files are text: XML or JSON. Unpack it first?",
                )
            try:
                return self.data.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                line = self.data.count(b"\n", 0, error.start) + 1
                byte = self.data[error.start]
                encoding_mistake = f":{line}: the byte 0x{byte:02x} is not UTF-8."
        raise InputError(
            self.path,
            [encoding_mistake],
            "Save it as UTF-8, for example with: iconv -t UTF-8 -f ENCODING FILE",
        )

    @cached_property
    def content(self) -> Content:
        """The text, parsed by its first character.

        Raises `InputError` if it is not XML, JSON or CSV, or if its syntax is broken.
        """
        text = self.text.lstrip()
        if text[:1] == "<":
            from archqa.tasks.files.xml_node import parse_xml  # lxml is slow to import.

            return parse_xml(self.text, self.path)
        if text[:1] and text[0] in "[{":
            return parse_json(self.text, self.path)
        header = text.partition("\n")[0]
        if "," not in header:
            raise InputError(self.path, [f": {_NEITHER}"], FORMAT_HINT)
        try:
            columns = next(csv.reader([header]), [])
        except csv.Error:
            columns = []
        return CsvContent(frozenset(name.strip() for name in columns))


def read_source(source: "Source | str | Path | bytes") -> Source:
    """Read a file: a path, `-` for standard input, `mini` for the three bundled cases, or bytes already read.

    Raises `InputError` if it is absent, a folder, unreadable or larger than 256 MiB.
    """
    if isinstance(source, Source):
        return source
    if isinstance(source, bytes):
        return Source("(bytes)", source)
    if str(source) == "-":
        path = "-"
        stream = getattr(sys.stdin, "buffer", None) or io.BytesIO()
        data = stream.read(MAX_FILE_BYTES + 1)
    else:
        path = str(resolve_path(as_path(source, "The file")))
        data = _read_file(Path(path))
    if len(data) > MAX_FILE_BYTES:
        raise InputError(
            path,
            [f": larger than {MAX_FILE_BYTES // 2**20} MiB."],
            "Split it into several case files.",
        )
    return Source(path, data)


def resolve_path(source: str | Path) -> Path:
    """The path of a source: `mini` means the bundled cases (`./mini` is a file), anything else is a path."""
    return (
        resources.mini_dataset_dir() / "mini.json"
        if str(source) == "mini"
        else Path(source)
    )


def _read_file(path: Path) -> bytes:
    """The bytes of a file, one more than allowed at most."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        advice = "Check the path, or try the bundled cases: mini"
        try:
            neighbours = [neighbour.name for neighbour in path.parent.iterdir()]
        except OSError:
            neighbours = []
        similar = near_misses(path.name, neighbours)
        if similar:
            advice = f"Did you mean {path.parent / similar[0]}?"
        raise InputError(path, [": there is no such file."], advice) from None
    except IsADirectoryError:
        raise InputError(
            path, [": this is a folder."], "Name the case file in it."
        ) from None
    except PermissionError:
        raise InputError(
            path, [": you may not read this file."], "Ask its owner, or: chmod u+r FILE"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            path, [f": cannot be read: {reason}."], "Name a file that can be read."
        ) from None


class Row(Protocol):
    """One row of a CSV file or of a JSON list, whose errors name its position."""

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
    rows = []
    text = source.text.lstrip()
    blank_lines = source.text[: len(source.text) - len(text)].count("\n")
    last_line = blank_lines + 1
    with large_csv_fields():
        lines = csv.reader(io.StringIO(text, newline=""), strict=True)
        try:
            header = [name.strip() for name in next(lines)]
            for fields in lines:
                first_line, last_line = last_line + 1, lines.line_num + blank_lines
                if len(fields) == len(header):
                    values = dict(zip(header, fields, strict=True))
                    rows.append(_CsvRow(values, first_line, mistakes))
                elif fields:
                    mistakes.add(
                        f":{first_line}",
                        f"the row has {len(fields)} fields, the head has {len(header)}.",
                    )
        except csv.Error as error:
            mistakes.add(f":{lines.line_num + blank_lines}", f"not CSV: {error}.")
    if not rows:
        mistakes.add("", "the table has no rows.")
    return rows


@contextmanager
def large_csv_fields() -> Iterator[None]:
    """Raise the csv module's limit on a field: a question with 2,257 gold ids exceeds it."""
    limit = csv.field_size_limit(MAX_FILE_BYTES)
    try:
        yield
    finally:
        csv.field_size_limit(limit)
