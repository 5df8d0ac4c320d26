"""The common interface to the objects of XML and JSON files."""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from archqa.tasks.files.mistakes import FileErrors

MAX_NUMBER = 10**9 - 1
"""No note has more characters; anything above is a mistake, not a position."""


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
