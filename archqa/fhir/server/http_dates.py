"""HTTP dates, such as `Tue, 15 Nov 1994 08:12:31 GMT`. Source: RFC 9110, section 5.6.7."""

import datetime
from email.utils import format_datetime, parsedate_to_datetime

from archqa.fhir.values import dates


def format_http_date(moment: int) -> str:
    """Return UTC microseconds since 0001-01-01 as an HTTP date; empty outside of its years."""
    try:
        instant = datetime.datetime.fromisoformat(dates.format_instant(moment))
    except (ValueError, OverflowError):
        return ""
    return format_datetime(instant, usegmt=True)


def parse_http_date(text: str) -> int | None:
    """Return the UTC microseconds of an HTTP date; None if the text is none."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # The zone is "-0000": the clock is UTC all the same.
        moment = moment.replace(tzinfo=datetime.UTC)
    return dates.microseconds(moment)
