"""Dates in the text of a note that lie after the note: what is planned for then."""

import re
from collections.abc import Iterator
from datetime import date

_PATTERNS = (
    re.compile(
        r"(?<![\d/.-])(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>(?:19|20|21|22)\d\d)(?!\d)"
    ),
    re.compile(r"(?<![\d/.-])(?P<month>\d{1,2})/(?P<year>(?:19|20|21|22)\d\d)(?!\d)"),
    re.compile(
        r"(?<![\d/.-])(?P<year>(?:19|20|21|22)\d\d)-(?P<month>\d\d)(?:-(?P<day>\d\d))?(?!\d)"
    ),
    re.compile(
        r"\b(?P<name>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
        r"(?: (?P<day>\d{1,2}),?)? (?P<year>(?:19|20|21|22)\d\d)(?!\d)",
        re.IGNORECASE,
    ),
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def names_later_date(text: str, written: date) -> bool:
    """Whether a text names a day or month after the day on which it was written."""
    return any(day > written for day in _days(text))


def names_only_earlier_dates(text: str, written: date) -> bool:
    """Whether a text names days, and each before the day on which it was written."""
    days = list(_days(text))
    return bool(days) and all(day < written for day in days)


def _days(text: str) -> Iterator[date]:
    """Yield the first day of each date; what is none in a calendar is left out."""
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            parts = match.groupdict()
            name = (parts.get("name") or "").lower()
            month = _MONTHS.index(name) + 1 if name else int(parts["month"])
            day = int(parts.get("day") or 1)
            if month > 12 >= day:
                month, day = day, month  # Written with the day first.
            try:
                yield date(int(parts["year"]), month, day)
            except ValueError:
                continue
