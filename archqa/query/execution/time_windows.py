"""Spans of calendar time as windows on the local clock, given the time of the question."""

import calendar
from collections.abc import Iterable
from datetime import datetime, time, timedelta
from typing import NamedTuple

from archqa.fhir import Encounters
from archqa.query.conventions import Conventions
from archqa.query.execution.elements import local_time_at
from archqa.query.execution.rows import Row
from archqa.query.model import CannotExecute
from archqa.query.scope import Ago, Span

_DAY = timedelta(days=1)
_FIXED_UNITS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": _DAY,
    "week": timedelta(weeks=1),
}
_MONTHS_PER_UNIT = {"month": 1, "year": 12}


class Window(NamedTuple):
    """A half-open interval on the local clock: `low` belongs to it, `high` does not."""

    low: datetime = datetime.min
    high: datetime = datetime.max

    def contains(self, time: datetime | None) -> bool:
        """Whether a local time lies within; None never does."""
        return time is not None and self.low <= time < self.high

    def intersect(self, window: "Window") -> "Window":
        """The time that lies in both windows."""
        low = max(self.low, window.low)
        high = min(self.high, window.high)
        return Window(low, high)


ALL_TIME = Window()


def resolve_now(now: str | None, conventions: Conventions) -> datetime | None:
    """The local time of the question, by the conventions."""
    if now is None:
        return None
    time = datetime.fromisoformat(now).replace(tzinfo=None)
    if conventions.now == "midnight":
        return _midnight(time)
    return time


def resolve_window(
    spans: Iterable[Span], now: datetime | None, conventions: Conventions
) -> Window:
    """The time that lies in all spans.

    Raises `CannotExecute` for "this year" without the time of the question, and for 30 February.
    """
    window = ALL_TIME
    for span in spans:
        low, high = _span_bounds(span, now, conventions)
        if span.relation == "since":
            span_window = Window(low, _since_end(now, conventions))
        elif span.relation == "after":
            span_window = Window(high, _since_end(now, conventions))
        elif span.relation == "before":
            span_window = Window(high=low)
        elif span.relation == "until":
            span_window = Window(high=high)
        else:
            span_window = Window(low, high)
        window = window.intersect(span_window)
    return window


def _since_end(now: datetime | None, conventions: Conventions) -> datetime:
    if conventions.since_window_end == "never" or now is None:
        return datetime.max
    return _midnight(now) + _DAY


def _span_bounds(
    span: Span, now: datetime | None, conventions: Conventions
) -> tuple[datetime, datetime]:
    """The start of the span, and the start of what follows it."""
    if span.is_relative and now is None:
        raise CannotExecute(
            f"The question says {str(span)!r}, but not what time it is.\nGive the clock (now)."
        )
    now = now or datetime.min
    if span.ago is not None:
        return _ago_bounds(span, span.ago, now, conventions)
    year, month, day = (
        span.year or now.year - (span.years_back or 0),
        span.month,
        span.day,
    )
    if span.days_back is not None:
        date = now - timedelta(days=span.days_back)
        year, month, day = date.year, date.month, date.day
    elif span.months_back is not None:
        year, month_index = divmod(_months_of(now) - span.months_back, 12)
        month = month_index + 1
    try:
        low = datetime(year, month or 1, day or 1)
    except ValueError:
        raise CannotExecute(
            f"There is no such day: {span}.\nGive a day that the calendar has."
        ) from None
    if not span.clock:
        return low, _end_of(low, month, day)
    # The minute of `21:00`, or the second of `21:00:00`.
    hour, minute, *seconds = map(int, span.clock.split(":"))
    low = low.replace(hour=hour, minute=minute, second=seconds[0] if seconds else 0)
    return low, low + timedelta(seconds=1 if seconds else 60)


def _end_of(low: datetime, month: int | None, day: int | None) -> datetime:
    """The end of the day, month or year that begins at `low`."""
    if day:
        return low + _DAY
    if month:
        return _add_months(low, 1, overflow=False)
    if low.year == 9999:
        return datetime.max
    return low.replace(year=low.year + 1)


def _ago_bounds(
    span: Span, ago: Ago, now: datetime, conventions: Conventions
) -> tuple[datetime, datetime]:
    """The moment that long before `now`; with "in", the whole day, month or year around it."""
    if ago.unit in _FIXED_UNITS:
        low = now - ago.count * _FIXED_UNITS[ago.unit]
    else:
        months = ago.count * _MONTHS_PER_UNIT[ago.unit]
        overflow = conventions.month_arithmetic == "overflow"
        low = _add_months(now, -months, overflow=overflow)
    if span.relation != "in":
        return low, low + timedelta(microseconds=1)
    day = _midnight(low)
    if ago.unit in _FIXED_UNITS:
        return day, day + _DAY
    if ago.unit == "month":
        start = day.replace(day=1)
        return start, _end_of(start, start.month, None)
    start = day.replace(month=1, day=1)
    return start, _end_of(start, None, None)


def _add_months(time: datetime, count: int, *, overflow: bool) -> datetime:
    """A time some months later.

    Where that month is too short: its last day, or with `overflow` (as SQLite counts) as many days
    into the following month.
    """
    year, month_index = divmod(_months_of(time) + count, 12)
    if year < 1:
        return datetime.min
    if year > 9999:
        return datetime.max
    month = month_index + 1
    days_in_month = calendar.monthrange(year, month)[1]
    day = min(time.day, days_in_month)
    result = time.replace(year=year, month=month, day=day)
    if not overflow:
        return result
    return result + timedelta(days=time.day - day)


def _months_of(time: datetime) -> int:
    """The number of months from year 0 to the month of a time."""
    return time.year * 12 + time.month - 1


def _midnight(time: datetime) -> datetime:
    return time.replace(hour=0, minute=0, second=0, microsecond=0)


def left_out_text(count: int, noun: str) -> str:
    """The caveat that counts what is dated after the question."""
    return f"Left out, since dated after the question: {count} {noun}."


def cutoff(now: datetime | None, conventions: Conventions) -> datetime | None:
    """The first moment that is too late; None if nothing is left out.

    A question asked at midnight is asked of the day: a date without a time of day was stated.
    """
    if now is None or conventions.later_rows != "left_out":
        return None
    if now.time() == time.min:
        return now + _DAY
    return now + timedelta(microseconds=1)


def split_later(
    rows: Iterable[Row], end: datetime | None, *, by_end: bool = False
) -> tuple[list[Row], list[Row]]:
    """The rows before an end and those after it; a row without a time is not later."""
    earlier: list[Row] = []
    later: list[Row] = []
    for row in rows:
        row_time = row.local_end if by_end else row.local_time
        is_later = end is not None and row_time is not None and row_time >= end
        (later if is_later else earlier).append(row)
    return earlier, later


def begun_before(encounters: Encounters, end: datetime | None) -> Encounters:
    """The encounters that began before an end; all without one."""
    if end is None:
        return encounters
    begun = []
    for encounter in encounters.all:
        start = local_time_at(encounter, "period.start")
        if start is None or start < end:
            begun.append(encounter)
    return Encounters(begun)
