"""Lines before they are checked against the record."""

from collections.abc import Iterable
from typing import NamedTuple

from archqa.asking.record_details import references
from archqa.query.execution.rows import Row


class LineDraft(NamedTuple):
    """A line that has not been checked yet: its text, its evidence, and the rows it was made of."""

    text: str
    citations: tuple[str, ...]
    date: str = ""
    rows: tuple[Row, ...] = ()


class SectionDraft(NamedTuple):
    """The lines of a section; `message` says what they are, or that there are more."""

    lines: tuple[LineDraft, ...] = ()
    message: str = ""


def draft_of_rows(text: str, rows: Iterable[Row]) -> LineDraft:
    """Return a line that rests on rows, the first of which tells its date."""
    rows = tuple(rows)
    time = rows[0].local_time
    date = time.isoformat() if time else ""
    return LineDraft(text, tuple(references(rows)), date, rows)
