"""A file of checksums in the format of `sha256sum`, such as `SHA256SUMS`."""

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Self

LIST_NAMES = ("SHA256SUMS", "SHA256SUMS.txt", "sha256sums.txt")

_LINE = re.compile(r"(\\?)([0-9a-fA-F]{64}) [ *](.*\S.*)")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "r": "\r", "\\": "\\"}


class ChecksumList:
    """The checksums of a list by name, relative to the list's folder.

    `mistakes` are its malformed lines as `:3: what`, `remarks` its names that lead out of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = Path(os.path.normpath(path.parent.absolute()))
        self.digests: dict[str, str] = {}
        self.mistakes: list[str] = []
        self.remarks: list[str] = []

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a list; a file that cannot be read is a list with one mistake."""
        checksums = cls(path)
        try:
            content = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        except OSError as error:
            checksums.mistakes.append(f": cannot be read: {error.strerror}.")
            return checksums
        for number, line in enumerate(os.fsdecode(content).split("\n"), start=1):
            checksums._add(number, line.rstrip("\r"))
        return checksums

    def name_of(self, path: Path) -> str:
        """The name under which the list would have this file; it begins with `..` for one outside."""
        relative = os.path.relpath(path, self.folder)
        return Path(relative).as_posix()

    def names_in(self, path: Path) -> Iterator[str]:
        """The names of a file, or of all files in a folder, that the list has."""
        own_name = self.name_of(path)
        for name in self.digests:
            if name == own_name or self._is_in(name, own_name):
                yield name

    def shown_path(self, name: str) -> str:
        """The path of a named file as people are shown it, on one line."""
        path = os.path.normpath(self.path.parent / name)
        return _shown(path)

    def _is_in(self, name: str, folder_name: str) -> bool:
        is_list_below_folder = folder_name.split("/")[-1] == ".."
        return is_list_below_folder or folder_name == "." or name.startswith(f"{folder_name}/")

    def _add(self, number: int, line: str) -> None:
        if not line.strip():
            return
        match = _LINE.fullmatch(line)
        if match is None:
            self.mistakes.append(f":{number}: is no line of a checksum list.")
            return
        is_escaped, digest, written_name = match.groups()
        name = posixpath.normpath(_unescape(written_name) if is_escaped else written_name)
        if name.startswith("/") or name.split("/")[0] == "..":
            remark = f"{self.path}:{number}: names a path outside of its folder; it is ignored"
            self.remarks.append(remark)
        elif self.digests.setdefault(name, digest.lower()) != digest.lower():
            mistake = f":{number}: has another checksum of {_shown(name)} than a line above it."
            self.mistakes.append(mistake)


def lists_in(folder: Path) -> list[ChecksumList]:
    """The lists of a folder, whichever of their names they have."""
    return [ChecksumList.read(folder / name) for name in LIST_NAMES if (folder / name).is_file()]


def _unescape(name: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[0]), name)


def _shown(name: str) -> str:
    if name.isprintable():
        return name
    return ascii(name)[1:-1]
