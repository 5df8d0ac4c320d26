"""Numbers, dates and lengths of time as an answer about a record says them."""

import calendar
from datetime import date, datetime
from typing import NamedTuple

from archqa.query.scope import Span, When

_KEPT_DECIMALS = 3
"""Decimals that a recorded number keeps; more are an artefact of conversion or simulation."""

_SIGNIFICANT_DIGITS = 4
_MAX_DAYS_IN_DAYS = 60
"""Lengths up to this are said in days, longer ones in months and years."""


def number_text(number: float) -> str:
    """Return a number as recorded: 6.4, 13; with many decimals to four digits, at least two decimals."""
    text = f"{number:.10f}".rstrip("0").rstrip(".")
    decimals = len(text.partition(".")[2])
    if decimals > _KEPT_DECIMALS:
        text = f"{number:.{_decimals(number)}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def computed_text(number: float) -> str:
    """Return a number that was computed, such as an average, to two decimals or three digits."""
    if 0 < abs(number) < 1:
        return f"{number:.3g}"
    text = f"{number:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _decimals(number: float) -> int:
    """Decimals for four significant digits, at least two."""
    if number == 0:
        return 2
    exponent = f"{abs(number):e}".partition("e")[2]
    return max(2, _SIGNIFICANT_DIGITS - 1 - int(exponent))


def date_text(time: datetime | date, digits: int = 10) -> str:
    """Return a date, `2026-04-28`, or the leading part of it that the record has: `2026-04`."""
    return time.isoformat()[:digits]


def clock_text(time: datetime) -> str:
    """Return a date with the time of day, `2026-04-28 08:30`; midnight is a bare date."""
    if time.hour == 0 and time.minute == 0:
        return date_text(time)
    return f"{time:%Y-%m-%d %H:%M}"


def is_narrow(when: When) -> bool:
    """Whether a day or two are asked for, so that the time of day matters."""
    return any(_is_narrow_span(span) for span in when.spans)


def _is_narrow_span(span: Span) -> bool:
    if span.ago is not None:
        is_short = span.ago.unit == "day" and span.ago.count <= 2
        return is_short or span.ago.unit in {"hour", "minute"}
    if span.relation not in {"in", "since"}:
        return False
    if span.days_back is not None:
        return span.days_back <= 1
    return span.day is not None and span.relation == "in"


class Length(NamedTuple):
    """A length of time in whole years, months and days of the calendar."""

    years: int
    months: int
    days: int

    @property
    def text(self) -> str:
        """The two largest parts: `3 years and 2 months`; days alone below a month."""
        parts = [_counted(self.years, "year"), _counted(self.months, "month")]
        if not self.years:
            parts.append(_counted(self.days, "day"))
        return " and ".join(part for part in parts if part) or "0 days"


def length_between(start: datetime, end: datetime) -> Length:
    """Return the length from a date to a later one; of dates in the wrong order, no length."""
    months = (end.year - start.year) * 12 + end.month - start.month
    if end.day < start.day:
        months -= 1
    if months < 0:
        return Length(0, 0, 0)
    anniversary = _months_after(start.date(), months)
    days = (end.date() - anniversary).days
    return Length(months // 12, months % 12, days)


def since_text(start: datetime, now: datetime) -> str:
    """Return how long ago a date is: `3 years and 2 months ago`, `12 days ago`, `today`."""
    days = (now.date() - start.date()).days
    if days < 0:
        return f"in {stay_text(start=now, end=start)}"
    if days == 0:
        return "today"
    if days <= _MAX_DAYS_IN_DAYS:
        return f"{_counted(days, 'day')} ago"
    return f"{length_between(start, now).text} ago"


def stay_text(start: datetime, end: datetime) -> str:
    """Return the length of a stay: in hours within two days, in days up to two months."""
    hours = (end - start).total_seconds() / 3600
    has_clocks = start.time() != end.time()
    if has_clocks and hours < 48:
        return _counted(round(hours), "hour") or f"{round(hours * 60)} minutes"
    days = (end.date() - start.date()).days
    if days <= _MAX_DAYS_IN_DAYS:
        return _counted(days, "day") or "0 days"
    return length_between(start, end).text


def full_years(birth: date, day: date) -> int:
    """Return the age in whole years."""
    has_had_birthday = (day.month, day.day) >= (birth.month, birth.day)
    return day.year - birth.year - (not has_had_birthday)


def counted(count: int, singular: str, plural: str) -> str:
    """Return a number with its noun: `1 visit`, `12 visits`."""
    return f"{count} {singular if count == 1 else plural}"


def listed(texts: list[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _counted(count: int, unit: str) -> str:
    return counted(count, unit, f"{unit}s") if count else ""


def _months_after(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    last_day = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last_day))
