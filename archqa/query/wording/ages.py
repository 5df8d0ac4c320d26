"""Ages in words, as exact as the recorded dates allow: `22 days (3 weeks)`, `70 or 71 years`."""

import calendar
from collections.abc import Sequence
from datetime import date

from archqa.query.execution.rows import Row
from archqa.query.model import Query
from archqa.query.wording.details import Statement, latest_first
from archqa.query.wording.rows import row_text
from archqa.query.wording.support import Support
from archqa.query.wording.words import counted, full_years, length_between

_DAYS_OF_NEWBORN = 28
_MONTHS_IN_MONTHS = 24
"""Below this age, months are told instead of years."""


def age_text(birth: str, at: str) -> str:
    """Return the age at a date; empty where a date is missing or lies before the birth.

    `birth` and `at` are FHIR dates of any precision. Of a date without day or month, every day in
    it counts: born in 1950, somebody who died in 2021 was 70 or 71 years old.
    """
    born, died = _days_of(birth), _days_of(at)
    if born is None or died is None or died[1] < born[0]:
        return ""
    youngest = max(0, full_years(born[1], died[0]))
    oldest = full_years(born[0], died[1])
    is_exact = born[0] == born[1] and died[0] == died[1]
    if is_exact and oldest * 12 < _MONTHS_IN_MONTHS:
        return _age_of_infant(born[0], died[0])
    if youngest == oldest:
        return counted(oldest, "year", "years")
    between = "or" if oldest - youngest == 1 else "to"
    return f"{youngest} {between} {oldest} years"


def age_statements(
    query: Query, rows: Sequence[Row], support: Support, birth: str
) -> list[Statement]:
    """Return the age at which each thing was, newest first; `birth` is a FHIR date or empty.

    Where a row has an age instead of a date, its own line says it.
    """
    statements = []
    for row in latest_first(rows):
        text = row_text(query, row, support)
        age = age_text(birth, support.date(row, row.time))
        if age and "age_at_time" not in row.facts:
            text = f"At the age of {age}: {text}"
        statements.append(Statement(text, (row,)))
    return statements


def _age_of_infant(born: date, at: date) -> str:
    days = (at - born).days
    if days < _DAYS_OF_NEWBORN:
        text = counted(days, "day", "days")
        weeks = days // 7
        return f"{text} ({counted(weeks, 'week', 'weeks')})" if weeks else text
    length = length_between(born, at)
    months = length.years * 12 + length.months
    if months < 3:
        return f"{days // 7} weeks"
    return f"{months} months"


def _days_of(text: str) -> tuple[date, date] | None:
    """The first and the last day that a FHIR date can mean; None if it is none."""
    parts = text[:10].split("-")
    try:
        year, *rest = map(int, parts)
        month = rest[0] if rest else None
        if len(rest) > 1:
            day = date(year, rest[0], rest[1])
            return day, day
        first = date(year, month or 1, 1)
        last_month = month or 12
        last_day = calendar.monthrange(year, last_month)[1]
        return first, date(year, last_month, last_day)
    except ValueError:
        return None
