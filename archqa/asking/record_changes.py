"""The change of a value over time as lines of an answer: how much, and which way between."""

import itertools
from collections.abc import Callable, Iterator, Sequence

from archqa.asking.record_measured import unit_text
from archqa.asking.record_numbers import computed_text, listed
from archqa.asking.record_statements import Statement
from archqa.query.execution.rows import Row

_MAX_TOLD = 8
"""Values of a series that are told one by one."""

_MAX_TURNS = 3
"""Ups and downs of a series that are told one by one."""

ValueOn = Callable[[Row], str]
"""A value with its date: `72.2 kg on 2019-09-15`."""


def change_statements(label: str, rows: Sequence[Row], value_on: ValueOn) -> Iterator[Statement]:
    """Yield the change from the first value to the last, and the way between them.

    `rows` have numbers in one unit and come oldest first.
    """
    first, last = rows[0], rows[-1]
    if len(rows) < 2:
        yield Statement(f"{label}: only one value, {value_on(first)}", (first,))
        return
    change = f"{label}: {_difference(first, last)}"
    text = f"{change}: from {value_on(first)} to {value_on(last)}"
    yield Statement(text, (first, last))
    if len(rows) > 2:
        yield _course(label, rows, value_on)


def _difference(first: Row, last: Row) -> str:
    difference = _number(last) - _number(first)
    if difference == 0:
        return "no change"
    amount = f"{computed_text(abs(difference))} {unit_text(last.unit)}".strip()
    return f"{amount} {'more' if difference > 0 else 'less'}"


def _course(label: str, rows: Sequence[Row], value_on: ValueOn) -> Statement:
    """Which way the values went from the first to the last, with the values at the turns."""
    turns = _turns(rows)
    decisive = [row for _, row in turns]
    course = "it stayed the same"
    if len(turns) > _MAX_TURNS:
        decisive = [max(rows, key=_number), min(rows, key=_number)]
        highest, lowest = (value_on(row) for row in decisive)
        course = f"it went up and down, highest {highest}, lowest {lowest}"
    elif len(turns) == 1 and len(rows) <= _MAX_TOLD:
        decisive = list(rows[1:-1])
        between = listed([value_on(row) for row in decisive])
        course = f"it only {turns[0][0]}, between them {between}"
    elif turns:
        moves = [f"{verb} to {value_on(row)}" for verb, row in turns]
        course = f"it {', then '.join(moves)}"
    return Statement(f"{label}, {len(rows)} results: {course}", (rows[0], *decisive, *rows[1:]))


def _turns(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    """The moves of a series: `rose` or `fell`, and the row where each move ends."""
    turns: list[tuple[str, Row]] = []
    for before, after in itertools.pairwise(rows):
        if _number(before) == _number(after):
            continue
        verb = "rose" if _number(after) > _number(before) else "fell"
        if turns and turns[-1][0] == verb:
            turns.pop()
        turns.append((verb, after))
    return turns


def _number(row: Row) -> float:
    return row.value or 0
