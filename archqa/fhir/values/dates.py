"""A FHIR date, dateTime or instant as the stretch of time it covers.

`2180-08` covers a month, `2180-08-06T20:35` a minute. Stretches are half-open `[low, high)`, in microseconds since
0001-01-01, on two clocks: the wall clock of whoever wrote it down, and UTC (text without a zone is read as UTC).
Sources: hl7.org/fhir/R4/datatypes.html#dateTime and search.html#date.
"""

import datetime
import re
from functools import lru_cache
from typing import NamedTuple

EARLIEST = -(2**62)
"""The start of a period that names none."""

LATEST = 2**62
"""The end of a period that names none: it is open."""

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE

_FORM = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+ -]\d\d:\d\d)?)?)?)?",
    re.ASCII,
)


class TimeRange(NamedTuple):
    """A stretch of time: microseconds on the wall clock, and the same in UTC."""

    low: int
    high: int
    low_utc: int
    high_utc: int
    has_timezone: bool = False


@lru_cache(maxsize=65536)
def parse_time_range(text: str) -> TimeRange | None:
    """What a date or time covers; None if the text is none. A blank stands for the `+` of a zone that a URL lost."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    try:
        if day is None:
            return _month_or_year(int(year), month)
        midnight = datetime.date(int(year), int(month), int(day)).toordinal() * DAY
    except ValueError:
        return None
    if hour is None:
        return TimeRange(midnight, midnight + DAY, midnight, midnight + DAY)
    clock = _clock(int(hour), int(minute), second, fraction)
    offset = _offset(zone)
    if clock is None or offset is None:
        return None
    low, high = midnight + clock[0], midnight + clock[1]
    return TimeRange(low, high, low - offset, high - offset, zone is not None)


def _month_or_year(year: int, month: str | None) -> TimeRange:
    first = datetime.date(year, int(month or 1), 1).toordinal()
    if month is None:
        after = datetime.date(year, 12, 31).toordinal() + 1
    elif month == "12":
        after = first + 31
    else:
        after = datetime.date(year, int(month) + 1, 1).toordinal()
    return TimeRange(first * DAY, after * DAY, first * DAY, after * DAY)


def _clock(
    hour: int, minute: int, second: str | None, fraction: str | None
) -> tuple[int, int] | None:
    """Low and high within the day. R4 allows second 60; it is taken as the last one of its minute."""
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


def _offset(zone: str | None) -> int | None:
    """Microseconds that the wall clock is ahead of UTC; None if no place on earth has that zone."""
    if zone is None or zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 14 or minutes > 59:
        return None
    ahead = (hours * 60 + minutes) * MINUTE
    return -ahead if zone[0] == "-" else ahead


def period_range(start: str | None, end: str | None) -> TimeRange | None:
    """What a Period covers; open where it names no start or no end.

    None if it names neither, if they are no dates, or if it ends before it starts.
    """
    first = parse_time_range(start) if start else None
    last = parse_time_range(end) if end else None
    if (start and first is None) or (end and last is None) or (first is None and last is None):
        return None
    low_utc, high_utc = (first.low_utc if first else EARLIEST), (last.high_utc if last else LATEST)
    if low_utc >= high_utc:
        return None
    low, high = (first.low if first else EARLIEST), (last.high if last else LATEST)
    # In the doubled hour of autumn the wall clock may show an end before the start.
    return TimeRange(low, max(high, low + 1), low_utc, high_utc)


def utc_now_microseconds() -> int:
    """This moment in UTC, in microseconds since 0001-01-01."""
    return microseconds(datetime.datetime.now(datetime.UTC))


def microseconds(at: datetime.datetime) -> int:
    """A moment with a zone, in UTC microseconds since 0001-01-01."""
    utc = at.astimezone(datetime.UTC)
    in_day = (utc.hour * 3600 + utc.minute * 60 + utc.second) * SECOND + utc.microsecond
    return utc.toordinal() * DAY + in_day


def format_instant(moment: int) -> str:
    """UTC microseconds since 0001-01-01 as a FHIR instant with milliseconds."""
    days, rest = divmod(moment, DAY)
    midnight = datetime.datetime.combine(
        datetime.date.fromordinal(days), datetime.time(), datetime.UTC
    )
    return (
        f"{midnight + datetime.timedelta(microseconds=rest // 1000 * 1000):%Y-%m-%dT%H:%M:%S.%f}"[
            :-3
        ]
        + "+00:00"
    )
