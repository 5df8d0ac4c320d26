"""Which part of a file a request asks for. Source: RFC 9110, section 14 (range requests)."""

import re
from collections.abc import Mapping
from typing import NamedTuple

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class BytePart(NamedTuple):
    """The bytes from `start` up to `end`, which is not part of it; `is_whole` without a range."""

    start: int
    end: int
    is_whole: bool


class RangeNotSatisfiable(Exception):
    """The range begins after the end of the file."""


def requested_part(headers: Mapping[str, str], size: int, etag: str) -> BytePart:
    """Return the part of a file that is asked for: all of it unless it is one range of this file.

    Several ranges, and what is no range, count as none, as the RFC allows. Raises
    `RangeNotSatisfiable`.
    """
    whole = BytePart(0, size, is_whole=True)
    match = _RANGE.fullmatch("".join(headers.get("range", "").split()))
    if match is None or headers.get("if-range", etag) != etag:
        return whole
    first, last = match.groups()
    if not first and not last:
        return whole
    if not first:
        start, end = max(0, size - int(last)), size
    else:
        start = int(first)
        end = min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return whole
    if start >= size or start >= end:
        raise RangeNotSatisfiable
    return BytePart(start, end, is_whole=False)
