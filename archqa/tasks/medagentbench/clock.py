"""Dates relative to the clock that a task names, never to the real one."""

import re
from datetime import datetime

from archqa.errors import Unusable

_NOW = re.compile(
    r"\b(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))(?=\s+now\b)"
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


def parse_instant(text: str) -> datetime | None:
    """The instant in a FHIR dateTime that has a zone; None for anything less precise."""
    try:
        instant = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return instant if instant.tzinfo else None
