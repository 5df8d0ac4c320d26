"""The parts of an answer about a record: statements, and the rows of the record they rest on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from archqa.asking.answer import Status
from archqa.query.execution.findings import QueryResult
from archqa.query.execution.rows import Row
from archqa.query.model import Query

Execute = Callable[[Query], QueryResult]
"""Carries out a further query about the same patient."""


_MAX_REASON_REFS = 6
MAX_LINES = 12
"""Lines of an answer; the rest are counted, and their resources are evidence."""


class Statement(NamedTuple):
    """One line of an answer and the rows it rests on, those that decide first."""

    text: str
    rows: tuple[Row, ...]


class Part(NamedTuple):
    """The answer to one query.

    `topic` is the same for queries that look for one thing in several kinds of rows. `verdict`
    stands before the first statement ("Yes: "). `message` says what there is not; `subject` and
    `searched` are its parts, where absences of one thing can be said together. `rows` are further
    rows that the answer rests on. `limit` is the number of statements that are shown; of a series,
    which stands oldest first, the last ones.
    """

    statements: tuple[Statement, ...] = ()
    status: Status = Status.ANSWERED
    topic: str = ""
    verdict: str = ""
    message: str = ""
    subject: str = ""
    searched: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    remarks: tuple[str, ...] = ()
    limit: int = MAX_LINES
    is_series: bool = False


def references(rows: Iterable[Row]) -> list[str]:
    """Return the resources that rows, their dates and their reasons stand in, each once."""
    refs: list[str] = []
    for row in rows:
        refs += (*row.refs, *row.context_refs, *row.reason_refs[:_MAX_REASON_REFS])
    return list(dict.fromkeys(refs))


def latest_first(rows: Sequence[Row]) -> list[Row]:
    """Return rows newest first, those without a date last. Rows come oldest first."""
    timed = [row for row in rows if row.time is not None]
    return [*reversed(timed), *(row for row in rows if row.time is None)]


def by_label(rows: Iterable[Row], labels: Callable[[Row], str]) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each label, in the order of the first row of each."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(labels(row), []).append(row)
    yield from groups.items()
