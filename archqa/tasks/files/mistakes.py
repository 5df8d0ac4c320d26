"""Collects all errors of one file, so that they can be fixed at once."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeGuard

from archqa.core.near_misses import near_misses
from archqa.errors import InputError

if TYPE_CHECKING:
    from archqa.tasks.files.source import Node, Row

_MAX_ID_LENGTH = 40
_LINE = re.compile(r":([0-9]+):")


class FileErrors:
    """The errors of one file so far."""

    def __init__(self, path: str, fix: str) -> None:
        self._path = path
        self._fix = fix
        self._errors: list[str] = []

    def add(self, where: str, problem: str) -> None:
        """Add an error. `where` is empty (the whole file), `:LINE` or `: case 5, $.sentences[3].id`."""
        self._errors.append(f"{where}: {problem}")

    def raise_if_any(self) -> None:
        """Raise one `InputError` with all errors, in the order of the file's lines, if there are any."""

        def line(error: str) -> int:
            match = _LINE.match(error)
            return int(match[1]) if match else 0

        if self._errors:
            raise InputError(self._path, sorted(self._errors, key=line), self._fix)


def printable(name: str) -> str:
    """A name from a file, fit for a message: short, on one line, printable anywhere."""
    if not name.isprintable():
        quoted = ascii(name)
        name = quoted[1:-1]
    if len(name) > _MAX_ID_LENGTH:
        return name[: _MAX_ID_LENGTH - 1] + "…"
    return name


def is_blank(text: str) -> bool:
    """Whether a text shows nothing: it is empty, or all white space and invisible characters."""
    return not any(
        character.isprintable() and not character.isspace() for character in text
    )


def are_texts(value: object) -> TypeGuard[list[str]]:
    """Whether a value is a list of texts."""
    return isinstance(value, list) and all(
        isinstance(element, str) for element in value
    )


def refuse_repeated_ids(
    rows: Iterable["Row | Node"], ids: Iterable[str], field: str, problem: str
) -> None:
    """Add an error to each row whose id an earlier row has; `problem` goes on after the id."""
    earlier_ids: set[str] = set()
    for row, row_id in zip(rows, ids, strict=True):
        if row_id and row_id in earlier_ids:
            row.add_error(field, f"'{printable(row_id)}' {problem}")
        earlier_ids.add(row_id)


def likely_typos(names: Iterable[str], fields: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs (name in the file, the field it was probably meant to be).

    Unknown names are accepted, because releases add fields. A name that is close to an absent field is a
    typo: the field's content would be lost silently.
    """
    names = list(names)
    fields = set(fields)
    absent = sorted(fields - set(names))
    typos = []
    for name in names:
        if name in fields or len(name) > _MAX_ID_LENGTH:
            continue
        similar = near_misses(name, absent, min_similarity=0.85)
        if similar:
            typos.append((name, similar[0]))
    return typos
