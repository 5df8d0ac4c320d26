"""Where resources come from: NDJSON, Bundles, single resources, plain or gzipped, and folders of them."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

FILE_SUFFIXES = (".ndjson", ".jsonl", ".json", ".ndjson.gz", ".jsonl.gz", ".json.gz")
MAX_CHUNK_BYTES = 512 * 2**20
"""Bytes of one line, or of one Bundle file, that are read at most."""

_BROKEN = (EOFError, gzip.BadGzipFile, zlib.error)


class SourceChunk(NamedTuple):
    """A line of a source with its place (`:17`), or a whole document with none."""

    at: str
    content: bytes


@dataclass
class Source:
    """One file. `mistakes` are those of the file as a file; `position` tells how many of its bytes have been read."""

    path: Path
    mistakes: list[str] = field(default_factory=list)
    is_fhir: bool = True
    position: Callable[[], int] = lambda: 0

    def pieces(self) -> Iterator[SourceChunk]:
        """The lines of the file that are not blank, or the file as one document."""
        try:
            with self.path.open("rb") as raw:
                self.position = raw.tell
                packed = raw.peek(2)[:2] == b"\x1f\x8b"
                with gzip.GzipFile(fileobj=raw) if packed else raw as file:
                    yield from self._read(file)  # type: ignore[arg-type]  # GzipFile is a BufferedIOBase
        except _BROKEN:
            self.mistakes.append(
                ": the gzip stream is damaged; what comes after the last good line is lost."
            )
        except OSError as error:
            self.mistakes.append(f": cannot be read ({error.strerror}).")
        finally:
            size = self.path.stat().st_size
            self.position = lambda: size

    def _read(self, file: IO[bytes]) -> Iterator[SourceChunk]:
        if self.path.name.removesuffix(".gz").endswith((".ndjson", ".jsonl")):
            yield from _lines(file, ())
            return
        first, second = file.readline(MAX_CHUNK_BYTES), file.readline(MAX_CHUNK_BYTES)
        if second.strip() and _is_whole(first):
            yield from _lines(file, (first, second))
        else:
            yield SourceChunk("", first + second + file.read(MAX_CHUNK_BYTES))


def _lines(file: IO[bytes], read: tuple[bytes, ...]) -> Iterator[SourceChunk]:
    for number, line in enumerate(
        chain(read, iter(lambda: file.readline(MAX_CHUNK_BYTES), b"")), start=1
    ):
        if not line.isspace():
            yield SourceChunk(f":{number}", line)


def _is_whole(line: bytes) -> bool:
    """Whether the first line of a file is a resource of its own, so that more may follow."""
    stripped = line.strip()
    if not (stripped.startswith(b"{") and stripped.endswith(b"}")):
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True
