"""Reads the bytes of a file or of standard input and their fingerprint."""

import hashlib
import io
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from archqa import resources
from archqa.core.near_misses import near_misses
from archqa.errors import InputError
from archqa.safety.arguments import as_path
from archqa.tasks.files.content import parse_content
from archqa.tasks.files.node import Content

MAX_FILE_BYTES = 256 * 2**20
"""Bytes. Far above any case file; it keeps /dev/zero and the like from filling the memory."""


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
            raise InputError(self.path, [": the file is empty."], "Name a file that holds cases.")
        if self.data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise self._not_utf8(": the file is UTF-16.")
        if b"\0" in self.data:
            raise InputError(
                self.path,
                [": the file is binary."],
                "Case files are text: XML or JSON. Unpack it first?",
            )
        return self._decoded()

    @cached_property
    def content(self) -> Content:
        """The parsed text. Raises `InputError` if its syntax is broken."""
        return parse_content(self.text, self.path)

    def _decoded(self) -> str:
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            byte = self.data[error.start]
            raise self._not_utf8(f":{line}: the byte 0x{byte:02x} is not UTF-8.") from None

    def _not_utf8(self, mistake: str) -> InputError:
        return InputError(
            self.path,
            [mistake],
            "Save it as UTF-8, for example with: iconv -t UTF-8 -f ENCODING FILE",
        )


def read_source(source: "Source | str | Path | bytes") -> Source:
    """Read a file: a path, `-` for standard input, `mini` for the three bundled cases, or bytes already read.

    Raises `InputError` if it is absent, a folder, unreadable or larger than 256 MiB.
    """
    if isinstance(source, Source):
        return source
    if isinstance(source, bytes):
        return Source("(bytes)", source)
    if str(source) == "-":
        return Source("-", _read_stdin())
    path = resolve_path(as_path(source, "The file"))
    return Source(str(path), _read_file(path))


def resolve_path(source: str | Path) -> Path:
    """The path of a source: `mini` means the bundled cases (`./mini` is a file), anything else is a path."""
    return resources.mini_dataset_dir() / "mini.json" if str(source) == "mini" else Path(source)


def _read_stdin() -> bytes:
    stream = getattr(sys.stdin, "buffer", None) or io.BytesIO()
    return _limited(stream, "-")


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return _limited(stream, str(path))
    except FileNotFoundError:
        raise InputError(path, [": there is no such file."], _neighbour(path)) from None
    except IsADirectoryError:
        raise InputError(path, [": this is a folder."], "Name the case file in it.") from None
    except PermissionError:
        raise InputError(
            path, [": you may not read this file."], "Ask its owner, or: chmod u+r FILE"
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            path, [f": cannot be read: {reason}."], "Name a file that can be read."
        ) from None


def _limited(stream: BinaryIO, path: str) -> bytes:
    data = stream.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise InputError(
            path,
            [f": larger than {MAX_FILE_BYTES // 2**20} MiB."],
            "Split it into several case files.",
        )
    return data


def _neighbour(path: Path) -> str:
    """Advice for an absent file: a file of a similar name next to it."""
    try:
        names = [neighbour.name for neighbour in path.parent.iterdir()]
    except OSError:
        names = []
    similar = near_misses(path.name, names)
    if similar:
        return f"Did you mean {path.parent / similar[0]}?"
    return "Check the path, or try the bundled cases: mini"
