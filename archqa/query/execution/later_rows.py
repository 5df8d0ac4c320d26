"""Rows and visits dated after the time of the question, where the conventions leave them out."""

from collections.abc import Iterable
from datetime import datetime, time, timedelta

from archqa.fhir import Encounters, Resource
from archqa.query.conventions import Conventions
from archqa.query.execution.elements import text_at
from archqa.query.execution.rows import Row, parse_datetime, without_timezone

LEFT_OUT = "Left out, since dated after the question"
"""How the warning begins that counts them."""

_DAY = timedelta(days=1)


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
    return Encounters(encounter for encounter in encounters.all if _has_begun(encounter, end))


def _has_begun(encounter: Resource, end: datetime) -> bool:
    start = without_timezone(parse_datetime(text_at(encounter, "period.start")))
    return start is None or start < end
