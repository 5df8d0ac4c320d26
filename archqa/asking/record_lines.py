"""Rows of a record as lines of an answer: name, dose, date, status and what else was asked."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from archqa.asking.record_details import detail_texts, status_text
from archqa.asking.record_displays import clean_name, sentence_case
from archqa.asking.record_measured import measured_statements
from archqa.asking.record_names import DRUGS, ENDED, MEASURED, STAYS, denies, row_status, row_words
from archqa.asking.record_numbers import is_narrow, listed, number_text
from archqa.asking.record_statements import Statement, latest_first
from archqa.asking.record_support import Support
from archqa.query.execution.rows import Row
from archqa.query.model import Query

_DOSAGE = frozenset({"dose", "frequency"})
_QUANTITIES = {"supply": "quantity ", "immunization": "dose "}
_MANY_DRUGS = 5
"""With more lines than these, the orders of one drug are one line, whatever their doses."""

MAX_DATES = 8
"""Dates of one thing that are written out; earlier ones are counted."""


def row_statements(query: Query, rows: Sequence[Row], support: Support) -> list[Statement]:
    """Return a statement for each thing: results oldest first, all else newest first.

    The same thing several times is one statement with its dates. `rows` come oldest first.
    """
    if query.what in MEASURED:
        return measured_statements(query, rows, support)
    writer = _Writer(query, support, is_single=len(rows) == 1)
    groups = _grouped(writer, rows)
    if query.what in DRUGS and query.returns == "name" and len(groups) > _MANY_DRUGS:
        writer = _Writer(query, support, is_single=False, is_brief=True)
        groups = _grouped(writer, rows)
    return [writer.statement(heading, group) for heading, group in groups.items()]


def _grouped(writer: "_Writer", rows: Sequence[Row]) -> dict["_Heading", list[Row]]:
    """The rows of each line, newest first."""
    groups: dict[_Heading, list[Row]] = {}
    for number, row in enumerate(latest_first(rows)):
        groups.setdefault(writer.heading(row, number), []).append(row)
    return groups


class _Heading(NamedTuple):
    """What rows of one line share. `number` keeps visits apart, which are one line each."""

    name: str
    details: tuple[str, ...]
    status: str
    number: int


class _Writer:
    """Writes the rows of one query."""

    def __init__(
        self, query: Query, support: Support, *, is_single: bool, is_brief: bool = False
    ) -> None:
        self._query = query
        self._support = support
        self._is_single = is_single
        self._is_brief = is_brief
        self._dated = row_words(query.what).dated
        self._with_clock = is_narrow(query.when)

    def heading(self, row: Row, number: int) -> _Heading:
        """Return what a row shares with others of its line."""
        if self._is_brief:
            return _Heading(self._name(row), (), "", -1)
        details = detail_texts(self._query, row, is_single=self._is_single)
        status = status_text(self._query, row)
        is_alone = self._query.what in STAYS
        return _Heading(self._name(row), tuple(details), status, number if is_alone else -1)

    def statement(self, heading: _Heading, rows: Sequence[Row]) -> Statement:
        """Return the line of rows, which come newest first."""
        status = heading.status
        if self._is_brief:
            statuses = dict.fromkeys(status_text(self._query, row) for row in rows)
            status = ", earlier ".join(filter(None, statuses))
        if len(rows) == 1:
            head = _joined(heading.name, self._date(rows[0]))
            status = "" if self._tells_status(rows[0]) else status
        else:
            head = self._group_head(heading.name, rows)
        text = ", ".join([head, *heading.details])
        return Statement(f"{text} ({status})" if status else text, tuple(rows))

    def _name(self, row: Row) -> str:
        words = row_words(self._query.what)
        name = clean_name(row.name)
        if not name:
            name = sentence_case(f"{words.singular} without a name")
        elif not denies(name) and words.lead.split()[0].lower() not in name.lower():
            name = words.lead.format(name)
        if self._query.what in DRUGS:
            return name if self._is_brief else ", ".join([name, *self._dosage(row)])
        value = row.text
        if row.value is not None:
            value = f"{number_text(row.value)} {row.unit}".strip()
        if not value or self._query.what == "device":
            return name
        return f"{name}, {_QUANTITIES.get(self._query.what, '')}{clean_name(value)}"

    def _dosage(self, row: Row) -> Iterator[str]:
        """Dose and frequency; a dose without a unit only if it was asked for.

        The dose of a mixture is that of the order, not of each drug in it.
        """
        if row.ingredient_count > 1:
            yield "in a mixture"
            if self._query.returns != "dose":
                return
        if row.value is not None and (row.unit or self._query.returns in _DOSAGE):
            unit = row.unit or "(unit not recorded)"
            yield f"dose {number_text(row.value)} {unit}"
        yield from row.facts.get("frequency", ())

    def _group_head(self, name: str, rows: Sequence[Row]) -> str:
        """The name and the dates; of the same date once."""
        oldest_first = list(reversed(rows))
        dates = list(dict.fromkeys(self._short_date(row) for row in oldest_first if row.time))
        if self._query.what == "administration" and len(dates) > MAX_DATES:
            return f"{name}, given {len(rows)} times from {dates[0]} to {dates[-1]}"
        text = _dates_text(dates)
        if not text:
            return f"{name}, {len(rows)} entries, dates not recorded"
        if self._dated in {"on", "since"}:
            return f"{name}: {text}"
        return f"{name}, {self._dated} {text}"

    def _short_date(self, row: Row) -> str:
        start, end = self._start(row), self._end(row)
        return f"{start} to {end}" if end else start

    def _date(self, row: Row) -> str:
        start, end = self._start(row), self._end(row)
        if not start:
            return f"until {end}" if end else "date not recorded"
        if self._dated == "since":
            return self._since(row, start, end)
        if self._dated == "on":
            return f"from {start} to {end}" if end else f"on {start}"
        return f"{self._dated} {start}, until {end}" if end else f"{self._dated} {start}"

    def _since(self, row: Row, start: str, end: str) -> str:
        status = row_status(row)
        if end:
            return f"from {start}, {status} {end}" if status in ENDED else f"{start} to {end}"
        if not status:
            return f"recorded {start}"
        return f"from {start}" if status in ENDED else f"since {start}"

    def _tells_status(self, row: Row) -> bool:
        """Whether the date of a row says its status, as in "resolved 2020-10-21"."""
        return self._dated == "since" and bool(self._end(row)) and row_status(row) in ENDED

    def _start(self, row: Row) -> str:
        return self._support.date(row, row.time, with_clock=self._with_clock)

    def _end(self, row: Row) -> str:
        """The end, if it is another day than the start."""
        if row.end is None or (row.time and row.time.date() == row.end.date()):
            return ""
        return self._support.date(row, row.end, with_clock=self._with_clock)


def _joined(name: str, date: str) -> str:
    if date.startswith(("on ", "from ")):
        return f"{name} {date}"
    return f"{name}, {date}"


def _dates_text(dates: list[str]) -> str:
    """The latest dates, oldest first, and how many there were earlier."""
    if len(dates) <= MAX_DATES:
        return listed(dates)
    earlier = len(dates) - MAX_DATES
    rest = f"{earlier} earlier, the first on {dates[0]}"
    if earlier == 1:
        rest = f"earlier on {dates[0]}"
    return f"{', '.join(dates[-MAX_DATES:])} and {rest}"
