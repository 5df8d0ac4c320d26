"""Rows of a measurement of several parts as one series for each part: a blood pressure has two."""

from collections.abc import Sequence
from typing import NamedTuple

from archqa.query.execution.concept_limit import ConceptMatcher, is_coded
from archqa.query.execution.rows import Row


class Series(NamedTuple):
    """The rows of one part, and its name; the only series of what has no parts has no name."""

    name: str
    rows: list[Row]


def series_by_part(rows: Sequence[Row], matcher: ConceptMatcher) -> list[Series]:
    """At least one series; rows of no part, such as a panel itself, are in none of several."""
    all_series = []
    for part in matcher.parts:
        part_rows = [row for row in rows if any(is_coded(part, code) for code in row.codings)]
        if part_rows:
            all_series.append(Series(part.name, part_rows))
    return all_series or [Series("", list(rows))]


def first_and_last(rows: Sequence[Row], matcher: ConceptMatcher) -> list[Row]:
    """Of each series in the order of time, the first and the last row with a number."""
    chosen: list[Row] = []
    for series in series_by_part(rows, matcher):
        measured = [row for row in series.rows if row.value is not None and row.time is not None]
        chosen += measured[:1]
        chosen += measured[1:][-1:]
    return chosen
