"""Dates relative to the clock that a task names, never to the real one."""

import re
from datetime import datetime, time, timedelta

from archqa.agents.tools.date_arithmetic import full_years
from archqa.errors import Unusable

_NOW = re.compile(
    r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))(?=\s+now\b)"
)
_TIME_OF_DAY = re.compile(r"\b(\d{1,2})(?::(\d\d))?\s*([ap])\.?m\b", re.IGNORECASE)
_NEXT_DAY = re.compile(r"\b(?:next day|tomorrow|following day)\b", re.IGNORECASE)
_HOURS_PER_UNIT = {"minute": 1 / 60, "hour": 1.0, "day": 24.0, "week": 168.0}
_LOOKBACK = re.compile(
    r"\b(?:last|past|previous)\s+(\d+)\s+(minute|hour|day|week)s?\b", re.IGNORECASE
)


def parse_now(context: str) -> datetime:
    """The time a context names ("It's 2023-11-13T10:15:00+00:00 now").

    Raises `Unusable` if it names none.
    """
    match = _NOW.search(context)
    if match is None:
        raise Unusable("The task names no time ('It's … now'), and dates are relative to one.")
    return datetime.fromisoformat(match[1])


def format_datetime(instant: datetime) -> str:
    """A FHIR dateTime to the second, with the zone as an offset."""
    return instant.isoformat(timespec="seconds")


def parse_lookback(text: str) -> timedelta | None:
    """The span in "within last 24 hours"; None if the text names none."""
    match = _LOOKBACK.search(text)
    if match is None:
        return None
    return timedelta(hours=int(match[1]) * _HOURS_PER_UNIT[match[2].lower()])


def parse_next_day_time(now: datetime, text: str) -> datetime | None:
    """The time in "the next day at 8am", a day after `now`; None if the text names none."""
    match = _TIME_OF_DAY.search(text)
    if match is None or not _NEXT_DAY.search(text):
        return None
    hour = int(match[1]) % 12
    if match[3].lower() == "p":
        hour += 12
    next_day = now.date() + timedelta(days=1)
    return datetime.combine(next_day, time(hour, int(match[2] or 0)), now.tzinfo)


def subtract_years(now: datetime, years: int) -> datetime:
    """The same day `years` years ago; 28 February in a year without a 29th."""
    try:
        return now.replace(year=now.year - years)
    except ValueError:
        return now.replace(year=now.year - years, day=28)


def age_on(birth_date: str, now: datetime) -> int:
    """Whole years since a date of birth. Raises `Unusable` if that is not a full date."""
    try:
        born = datetime.fromisoformat(birth_date)
    except ValueError:
        raise Unusable("The patient's date of birth is no full date.") from None
    return full_years(born, now)


def parse_instant(text: str) -> datetime | None:
    """The instant in a FHIR dateTime that has a zone; None for anything less precise."""
    try:
        instant = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return instant if instant.tzinfo else None
