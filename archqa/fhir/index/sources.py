"""Read source files in chunks: NDJSON, Bundles and single resources, plain or gzipped."""

import codecs
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

FILE_SUFFIXES = (".ndjson", ".jsonl", ".json", ".ndjson.gz", ".jsonl.gz", ".json.gz")
MAX_CHUNK_BYTES = 512 * 2**20
"""Bytes of one line, or of one Bundle file."""

MAX_UNPACKED_BYTES = 64 * 2**20
"""The same in a gzip: a kilobyte of it may unpack to a MiB."""

_GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)


class _TooLong(Exception):
    """A line or a document is over the limit; the message is the mistake."""


class SourceChunk(NamedTuple):
    """A line of a source with its location (`:17`), or a whole document with an empty one."""

    location: str
    content: bytes


@dataclass
class Source:
    """One file. `mistakes` concern the whole file; `position` returns the bytes read so far."""

    path: Path
    mistakes: list[str] = field(default_factory=list)
    is_fhir: bool = True
    position: Callable[[], int] = lambda: 0

    def chunks(self) -> Iterator[SourceChunk]:
        """Yield the lines of the file that are not blank, or the file as one document."""
        try:
            with self.path.open("rb") as raw:
                self.position = raw.tell
                is_gzip = raw.peek(2)[:2] == b"\x1f\x8b"
                limit = MAX_UNPACKED_BYTES if is_gzip else MAX_CHUNK_BYTES
                with gzip.GzipFile(fileobj=raw) if is_gzip else raw as file:
                    yield from self._read(file, limit)  # type: ignore[arg-type]
        except _TooLong as mistake:
            self.mistakes.append(str(mistake))
        except _GZIP_ERRORS:
            loss = "what comes after the last good line is lost"
            self.mistakes.append(f": the gzip stream is damaged; {loss}.")
        except OSError as error:
            self.mistakes.append(f": cannot be read ({error.strerror}).")
        finally:
            size = self.path.stat().st_size
            self.position = lambda: size

    def _read(self, file: IO[bytes], limit: int) -> Iterator[SourceChunk]:
        lines = _limited_lines(file, limit)
        if self.path.name.removesuffix(".gz").endswith((".ndjson", ".jsonl")):
            yield from _line_chunks(lines)
            return
        first_line, next_line = next(lines, b""), next(lines, b"")
        if next_line.strip() and _is_json_object(first_line):
            yield from _line_chunks(chain((first_line, next_line), lines))
        else:
            document = first_line + next_line + file.read(limit + 1)
            if len(document) > limit:
                raise _TooLong(f": is longer than {limit // 2**20} MiB; it was not read.")
            yield SourceChunk("", document)


def _limited_lines(file: IO[bytes], limit: int) -> Iterator[bytes]:
    """Yield the lines of a file. Raises `_TooLong`, instead of looking for the end of a long one."""
    lines = iter(partial(file.readline, limit + 1), b"")
    for number, line in enumerate(lines, start=1):
        if len(line) > limit:
            size = f"is longer than {limit // 2**20} MiB"
            raise _TooLong(f":{number}: {size}; what comes after it was not read.")
        yield line


def _line_chunks(lines: Iterable[bytes]) -> Iterator[SourceChunk]:
    for number, line in enumerate(lines, start=1):
        if not line.isspace():
            yield SourceChunk(f":{number}", line)


def _is_json_object(line: bytes) -> bool:
    """Whether the line is a JSON object, so that every line may be a resource."""
    stripped = line.removeprefix(codecs.BOM_UTF8).strip()
    if not (stripped.startswith(b"{") and stripped.endswith(b"}")):
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True
