"""Gathers what is wrong with one file, so that its owner can mend it in one go."""

import difflib
import re
from collections.abc import Iterable

from archqa.errors import InputError

_LONGEST_ID = 40
_LINE = re.compile(r":([0-9]+):")


class FileErrors:
    """Every mistake found in one file so far."""

    def __init__(self, path: str, fix: str) -> None:
        self._path = path
        self._fix = fix
        self._found: list[str] = []

    def add(self, where: str, what: str) -> None:
        """Note one mistake. `where` is empty (the whole file), `:LINE` or `: case 5, $.sentences[3].id`."""
        self._found.append(f"{where}: {what}")

    def settle(self) -> None:
        """Raise one `InputError` with every mistake, in the order of the file's lines, if there is any."""
        if self._found:
            raise InputError(self._path, sorted(self._found, key=_line), self._fix)


def printable(name: str) -> str:
    """A name from a file, fit for a message: short, on one line, printable anywhere."""
    plain = name if name.isprintable() else ascii(name)[1:-1]
    return plain if len(plain) <= _LONGEST_ID else plain[: _LONGEST_ID - 1] + "…"


def likely_typos(given: Iterable[str], known: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs (name in the file, name it was probably meant to be).

    Names we do not know are let pass, because releases add fields; one that nearly is a known name, while that one is
    absent, would lose its content silently.
    """
    given, known = list(given), set(known)
    absent = sorted(known - set(given))
    pairs = (
        (name, _nearest(name, absent))
        for name in given
        if name not in known and len(name) <= _LONGEST_ID
    )
    return [(name, meant) for name, meant in pairs if meant]


def _line(mistake: str) -> int:
    found = _LINE.match(mistake)
    return int(found[1]) if found else 0


def _nearest(name: str, known: list[str]) -> str:
    return next(iter(difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.85)), "")
