"""Dates as a task means them: relative to the clock it names, never to ours."""

import re
from datetime import datetime, time, timedelta

from archqa.errors import Unusable

_NOW = re.compile(
    r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))(?=\s+now\b)"
)
_HOUR = re.compile(r"\b(\d{1,2})(?::(\d\d))?\s*([ap])\.?m\b", re.IGNORECASE)
_SPANS = {"minute": 1 / 60, "hour": 1.0, "day": 24.0, "week": 168.0}
_SPAN = re.compile(r"\b(?:last|past|previous)\s+(\d+)\s+(minute|hour|day|week)s?\b", re.IGNORECASE)


def parse_now(context: str) -> datetime:
    """The time a context names ("It's 2023-11-13T10:15:00+00:00 now"). Raises `Unusable` if it names none."""
    found = _NOW.search(context)
    if found is None:
        raise Unusable("The task names no time ('It's … now'), and dates are relative to one.")
    return datetime.fromisoformat(found[1])


def format_datetime(at: datetime) -> str:
    """As FHIR writes it, to the second, with the zone as an offset."""
    return at.isoformat(timespec="seconds")


def parse_lookback(text: str) -> timedelta | None:
    """The span in "within last 24 hours"; None if the text names none."""
    found = _SPAN.search(text)
    return timedelta(hours=int(found[1]) * _SPANS[found[2].lower()]) if found else None


def parse_next_day_time(now: datetime, text: str) -> datetime | None:
    """The time in "the next day at 8am", a day after now; None if the text names none."""
    found = _HOUR.search(text)
    if found is None or not re.search(
        r"\b(?:next day|tomorrow|following day)\b", text, re.IGNORECASE
    ):
        return None
    hour = int(found[1]) % 12 + (12 if found[3].lower() == "p" else 0)
    return datetime.combine(
        now.date() + timedelta(days=1), time(hour, int(found[2] or 0)), now.tzinfo
    )


def subtract_years(now: datetime, years: int) -> datetime:
    """The same day so many years ago; 28 February where there is no 29th."""
    try:
        return now.replace(year=now.year - years)
    except ValueError:
        return now.replace(year=now.year - years, day=28)


def age_on(born: str, now: datetime) -> int:
    """Whole years since a date of birth. Raises `Unusable` if that is no full date."""
    try:
        day = datetime.fromisoformat(born)
    except ValueError:
        raise Unusable("The patient's date of birth is no full date.") from None
    return now.year - day.year - ((now.month, now.day) < (day.month, day.day))


def parse_instant(text: str) -> datetime | None:
    """The instant in a FHIR dateTime that has a zone; None for anything less."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else None
