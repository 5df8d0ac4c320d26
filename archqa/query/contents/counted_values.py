"""Values with how often they occur, and ranges of dates, as text."""

from collections import Counter
from typing import NamedTuple

MAX_NAME_CHARACTERS = 100
"""A longer name is cut where it is only shown; no real name of a code is longer than 255."""


class Dates(NamedTuple):
    """The first and the last day of some rows; empty where no row has a date."""

    first: str
    last: str

    def __str__(self) -> str:
        if self.first == self.last:
            return self.first
        return f"{self.first} to {self.last}"


class CountedValue(NamedTuple):
    """A value and the number of rows that have it."""

    value: str
    number: int

    def __str__(self) -> str:
        return f"{quoted_name(self.value)} {self.number}"


def counted(values: Counter[str]) -> tuple[CountedValue, ...]:
    """The values, the most frequent first."""
    ordered = sorted(values.items(), key=lambda each: (-each[1], each[0]))
    return tuple(CountedValue(value, count) for value, count in ordered)


def quoted_name(name: str) -> str:
    """A name in quotation marks, cut if it is very long."""
    if len(name) > MAX_NAME_CHARACTERS:
        name = f"{name[:MAX_NAME_CHARACTERS]}…"
    return f'"{name}"'


def rows_text(count: int, dates: Dates) -> str:
    """`34 rows, 2150-01-01 to 2150-03-02`."""
    rows = "1 row" if count == 1 else f"{count} rows"
    return f"{rows}, {dates}" if dates.first else rows
