"""A FHIR date, dateTime or instant as the range of time it covers.

`2180-08` covers a month, `2180-08-06T20:35` a minute. Ranges are half-open `[low, high)`, in
microseconds since 0001-01-01, on two clocks: the wall clock of the author, and UTC (text without a
zone is read as UTC). Sources: hl7.org/fhir/R4/datatypes.html#dateTime and search.html#date.
"""

import datetime
import re
from functools import lru_cache
from typing import NamedTuple

EARLIEST = -(2**62)
"""The start of a period without one."""

LATEST = 2**62
"""The end of a period without one: it is open."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE

_FIRST_DAY = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)
"""As in Python's ordinals, this is day 1."""

_DATE_TIME = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)"
    r"(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+ -]\d\d:\d\d)?)?)?)?",
    re.ASCII,
)


class TimeRange(NamedTuple):
    """A range of time: microseconds on the wall clock, and the same in UTC."""

    low: int
    high: int
    low_utc: int
    high_utc: int
    has_timezone: bool = False


@lru_cache(maxsize=65536)
def parse_time_range(text: str) -> TimeRange | None:
    """Return what a date or time covers; None if the text is neither.

    A blank is read as the `+` of a zone: URLs decode `+` to a blank.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        if day is None:
            return _month_or_year(int(year), month)
        midnight = datetime.date(int(year), int(month), int(day)).toordinal() * DAY
    except ValueError:
        return None
    if hour is None:
        return _without_timezone(midnight, midnight + DAY)
    clock = _clock(
        int(hour),
        int(minute),
        second,
        fraction,
    )
    if clock is None:
        return None
    offset = 0
    if zone is not None and zone != "Z":
        zone_hours, zone_minutes = int(zone[1:3]), int(zone[4:6])
        if zone_hours > 14 or zone_minutes > 59:
            return None
        offset = (zone_hours * 60 + zone_minutes) * MINUTE
        if zone[0] == "-":
            offset = -offset
    clock_low, clock_high = clock
    low = midnight + clock_low
    high = midnight + clock_high
    return TimeRange(
        low=low,
        high=high,
        low_utc=low - offset,
        high_utc=high - offset,
        has_timezone=zone is not None,
    )


def _without_timezone(low: int, high: int) -> TimeRange:
    return TimeRange(
        low,
        high,
        low_utc=low,
        high_utc=high,
    )


def _month_or_year(year: int, month: str | None) -> TimeRange:
    start = datetime.date(year, int(month or 1), 1).toordinal()
    if month is None:
        end = datetime.date(year, 12, 31).toordinal() + 1
    elif month == "12":
        end = start + 31
    else:
        end = datetime.date(year, int(month) + 1, 1).toordinal()
    return _without_timezone(start * DAY, end * DAY)


def _clock(
    hour: int,
    minute: int,
    second: str | None,
    fraction: str | None,
) -> tuple[int, int] | None:
    """Return low and high within the day. R4 allows second 60: it is read as the last second."""
    if hour > 23 or minute > 59 or int(second or 0) > 60:
        return None
    low = (hour * 60 + minute) * MINUTE
    if second is None:
        return low, low + MINUTE
    low += min(int(second), 59) * SECOND
    if fraction is None:
        return low, low + SECOND
    step = max(1, SECOND // 10 ** len(fraction))
    low += int(fraction[:6].ljust(6, "0"))
    return low, low + step


def period_range(start: str | None, end: str | None) -> TimeRange | None:
    """Return what a Period covers; it is open on a side without a date.

    None if both sides are absent, if a side is no date, or if the period ends before it starts.
    """
    starts = parse_time_range(start) if start else _OPEN
    ends = parse_time_range(end) if end else _OPEN
    if not (start or end) or starts is None or ends is None:
        return None
    if starts.low_utc >= ends.high_utc:
        return None
    # In the repeated hour of autumn the wall clock may show an end before the start.
    return TimeRange(
        starts.low,
        max(ends.high, starts.low + 1),
        starts.low_utc,
        ends.high_utc,
    )


_OPEN = _without_timezone(EARLIEST, LATEST)


def utc_now_microseconds() -> int:
    """Return the present moment in UTC, in microseconds since 0001-01-01."""
    return microseconds(datetime.datetime.now(datetime.UTC))


def microseconds(moment: datetime.datetime) -> int:
    """Return a moment with a zone in UTC microseconds since 0001-01-01."""
    return (moment - _FIRST_DAY) // datetime.timedelta(microseconds=1) + DAY


def format_instant(moment: int) -> str:
    """Return UTC microseconds since 0001-01-01 as a FHIR instant with milliseconds."""
    instant = _FIRST_DAY + datetime.timedelta(microseconds=moment - DAY)
    return instant.isoformat(timespec="milliseconds")
