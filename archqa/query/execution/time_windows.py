"""Spans of calendar time as windows on the wall clock, once it is known what time it is."""

import calendar
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from archqa.query.conventions import Conventions
from archqa.query.execution.problems import CannotExecute
from archqa.query.scope import Ago, Span

_LENGTHS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1)}
_LENGTHS["week"] = timedelta(weeks=1)


class Window(NamedTuple):
    """A half-open stretch of time on the wall clock: `low` belongs to it, `high` does not."""

    low: datetime = datetime.min
    high: datetime = datetime.max

    def holds(self, time: datetime | None) -> bool:
        """Whether a time on the wall clock lies within; no time lies nowhere."""
        return time is not None and self.low <= time < self.high

    def intersect(self, other: "Window") -> "Window":
        """What lies in both."""
        return Window(max(self.low, other.low), min(self.high, other.high))


ALL_TIME = Window()


def resolve_now(now: str | None, ways: Conventions) -> datetime | None:
    """What time it is, on the wall clock, by the conventions."""
    if now is None:
        return None
    found = datetime.fromisoformat(now).replace(tzinfo=None)
    return (
        found.replace(hour=0, minute=0, second=0, microsecond=0)
        if ways.now == "midnight"
        else found
    )


def resolve_window(spans: Iterable[Span], now: datetime | None, ways: Conventions) -> Window:
    """What lies in all of the spans. Raises `CannotExecute` for "this year" without a clock, or 30 February."""
    found = ALL_TIME
    for span in spans:
        found = found.intersect(_one(span, now, ways))
    return found


def _one(span: Span, now: datetime | None, ways: Conventions) -> Window:
    low, high = _stretch(span, now, ways)
    if span.relation in {"since", "after"}:
        ends = datetime.max
        if ways.since_window_end == "with_the_clock" and now is not None:
            ends = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        return Window(low if span.relation == "since" else high, ends)
    if span.relation in {"before", "until"}:
        return Window(high=low if span.relation == "before" else high)
    return Window(low, high)


def _stretch(span: Span, now: datetime | None, ways: Conventions) -> tuple[datetime, datetime]:
    """Where the stretch begins, and where what comes after it begins."""
    if span.is_relative and now is None:
        raise CannotExecute(
            f"The question says {str(span)!r}, but not what time it is.\nGive the clock (now)."
        )
    if span.ago is not None:
        return _ago(span, span.ago, now or datetime.min, ways)
    year, month, day = _date(span, now or datetime.min)
    try:
        low = datetime(year, month or 1, day or 1)
    except ValueError:
        raise CannotExecute(
            f"There is no such day: {span}.\nGive a day that the calendar has."
        ) from None
    if span.clock:
        hour, minute, *second = map(int, span.clock.split(":"))
        low = low.replace(hour=hour, minute=minute, second=second[0] if second else 0)
        return low, low + (timedelta(seconds=1) if second else timedelta(minutes=1))
    return low, _after(low, month, day)


def _date(span: Span, now: datetime) -> tuple[int, int | None, int | None]:
    if span.days_back is not None:
        then = now - timedelta(days=span.days_back)
        return then.year, then.month, then.day
    if span.months_back is not None:
        years, month = divmod(now.year * 12 + now.month - 1 - span.months_back, 12)
        return years, month + 1, span.day
    return (span.year or now.year - (span.years_back or 0)), span.month, span.day


def _after(low: datetime, month: int | None, day: int | None) -> datetime:
    if day:
        return low + timedelta(days=1)
    if month:
        return _months(low, 1, "last_day")
    return low.replace(year=low.year + 1) if low.year < 9999 else datetime.max


def _ago(span: Span, ago: Ago, now: datetime, ways: Conventions) -> tuple[datetime, datetime]:
    """The moment that long before the clock; "in" means its whole day, month or year."""
    if ago.unit in _LENGTHS:
        low = now - ago.count * _LENGTHS[ago.unit]
    else:
        low = _months(now, -ago.count * (12 if ago.unit == "year" else 1), ways.months_back)
    if span.relation != "in":
        return low, low + timedelta(microseconds=1)
    day = low.replace(hour=0, minute=0, second=0, microsecond=0)
    if ago.unit in _LENGTHS:
        return (day, day + timedelta(days=1))
    first = day.replace(day=1, month=1 if ago.unit == "year" else day.month)
    return first, _after(first, None if ago.unit == "year" else first.month, None)


def _months(time: datetime, count: int, ways: str) -> datetime:
    """Months later. Where that month is too short: its last day, or as many days into the next (as SQLite counts)."""
    year, month = divmod(time.year * 12 + time.month - 1 + count, 12)
    if not 1 <= year <= 9999:
        return datetime.max if count > 0 else datetime.min
    longest = calendar.monthrange(year, month + 1)[1]
    over = max(0, time.day - longest)
    found = time.replace(year=year, month=month + 1, day=min(time.day, longest))
    return found + timedelta(days=over) if ways == "overflow" else found
