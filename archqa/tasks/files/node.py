"""What a case is read from, whichever notation it is written in: XML and JSON look the same from here."""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from archqa.tasks.files.mistakes import FileErrors

MAX_NUMBER = 10**9 - 1
"""No note has more characters; anything above is a mistake, not a position."""


class Node(Protocol):
    """One object of a file (a case, a sentence, a phrase) and its fields, by our JSON's names.

    Nothing here raises: what is wrong is noted and a harmless value returned, so that reading goes on to the next.
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
        """Note fields whose names nearly are one of `names`."""

    def complain(self, name: str, what: str) -> None:
        """Note a mistake in one field."""


class Content(Protocol):
    """A file once its syntax is understood."""

    @property
    def format(self) -> Literal["xml", "json", "csv"]:
        """The notation it is written in."""

    @property
    def fields(self) -> frozenset[str]:
        """Names of all fields that its entries have: what a benchmark is recognised by."""

    def entries(self, mistakes: FileErrors) -> Sequence[Node]:
        """Its cases, in the order of the file."""
