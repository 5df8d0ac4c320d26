"""Ages and differences of dates for the calculator: on the calendar, exact, without the real clock.

A date or dateTime is text as FHIR has it: `1950-11-14`, `2023-11-13T10:15:00+00:00`.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction

_DATE_LENGTH = len("2023-11-13")

_SECONDS_PER_UNIT = {"days": 86_400, "hours": 3_600, "minutes": 60}
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_SECOND = 1_000_000


class DateError(ValueError):
    """The texts have no difference; the message tells their author why."""


def full_years(born: date, day: date) -> int:
    """Whole years from a date of birth to a day: a birthday that is still ahead does not count."""
    birthday_is_ahead = (day.month, day.day) < (born.month, born.day)
    return day.year - born.year - birthday_is_ahead


def age(born: str, day: str) -> int:
    """The age in whole years on a day. Raises `DateError` for what is no full date."""
    years = full_years(_moment(born).date(), _moment(day).date())
    if years < 0:
        raise DateError(f"The date of birth {born} lies after {day}.")
    return years


def _difference_in(seconds: int) -> Callable[[str, str], Fraction]:
    def difference(start: str, end: str) -> Fraction:
        """From the first time to the second, negative if that is earlier."""
        microseconds = _elapsed(start, end) // _MICROSECOND
        return Fraction(microseconds, seconds * _MICROSECONDS_PER_SECOND)

    return difference


DATE_FUNCTIONS: dict[str, Callable[[str, str], int | Fraction]] = {
    "age": age,
    **{unit: _difference_in(seconds) for unit, seconds in _SECONDS_PER_UNIT.items()},
}
"""age(born, on) in whole years; days, hours and minutes (from, to), with fractions."""


def _elapsed(start: str, end: str) -> timedelta:
    """The time from one text to another; a bare date is midnight in the zone of the other.

    Raises `DateError` for no date, and where only one of two times has a zone.
    """
    first, second = _moment(start), _moment(end)
    if len(start.strip()) == _DATE_LENGTH:
        first = first.replace(tzinfo=second.tzinfo)
    elif len(end.strip()) == _DATE_LENGTH:
        second = second.replace(tzinfo=first.tzinfo)
    if (first.tzinfo is None) != (second.tzinfo is None):
        raise DateError("One of the times has a zone and the other has none; give both or neither.")
    return second - first


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text.strip())
    except (ValueError, AttributeError):
        raise DateError(
            f"{str(text)[:40]!r} is no date such as '1950-11-14' or '2023-11-13T10:15:00+00:00'."
        ) from None
