"""What the status of a row means: whether it is a fact, and whether it is current or has ended."""

from datetime import datetime, time, timedelta
from typing import Any, Literal

from archqa.query.execution.elements import value_at
from archqa.query.execution.names import concept_codes
from archqa.query.execution.rows import Row
from archqa.query.kinds import ERROR, KINDS, Source, Statuses

RowState = Literal["current", "ended", "neither", "unknown"]
"""neither: on hold, or not begun; unknown: the record does not say."""

_UNKNOWN_STATUSES = frozenset({"", "unknown"})
_DAY = timedelta(days=1)


def status_facts(statuses: Statuses, resource: Any) -> dict[str, tuple[str, ...]]:
    """The facts `status` (of the first declared path) and `status_detail` (of the others)."""
    facts = {}
    own_path, *other_paths = statuses.paths
    own = _codes_at(resource, own_path)
    details: dict[str, None] = {}
    for path in other_paths:
        details.update(dict.fromkeys(_codes_at(resource, path)))
    if own:
        facts["status"] = own
    if details:
        facts["status_detail"] = tuple(details)
    return facts


def _codes_at(resource: Any, path: str) -> tuple[str, ...]:
    """The codes at a path. Of a boolean that is true, the name of its element (doNotPerform)."""
    value = value_at(resource, path)
    if value is True:
        return (path,)
    return concept_codes(value)


def _all_codes(row: Row) -> frozenset[str]:
    return frozenset((*row.facts.get("status", ()), *row.facts.get("status_detail", ())))


def is_error(row: Row) -> bool:
    """Whether the row was recorded by mistake."""
    return ERROR in _all_codes(row)


def is_fact(what: str, row: Row) -> bool:
    """Whether the row states something that is or was so: neither an error, nor planned, nor denied."""
    statuses = _statuses_of(what, row)
    excluded = {ERROR, *statuses.no_fact}
    return excluded.isdisjoint(_all_codes(row))


def tentative_status(what: str, row: Row) -> str:
    """The status of a row that is only provisional; empty if it is established."""
    codes = _all_codes(row) & _statuses_of(what, row).tentative
    return min(codes, default="")


def row_state(what: str, row: Row, now: datetime | None) -> RowState:
    """Whether a row is current or has ended at a local time, by its statuses and its dates.

    A status of having ended decides; else an end before `now` does, and a start after it.
    """
    statuses = _statuses_of(what, row)
    codes = frozenset(row.facts.get("status", ()))
    if codes & statuses.ended or _has_passed(row.local_end, now):
        return "ended"
    if now is not None and row.local_time is not None and row.local_time > now:
        return "neither"
    if codes & statuses.current:
        return "current"
    if codes - _UNKNOWN_STATUSES:
        return "neither"
    if now is not None and row.local_end is not None:
        return "current"
    return "unknown"


def _has_passed(end: datetime | None, now: datetime | None) -> bool:
    """Whether an end lies before a time; a bare date lasts until its day is over."""
    if end is None or now is None:
        return False
    if end.time() == time.min:
        return end + _DAY <= now
    return end <= now


def _statuses_of(what: str, row: Row) -> Statuses:
    """The declared meaning of the statuses of the resource that holds the row."""
    sources = KINDS[what].sources
    return _source_of(sources, row).statuses if sources else Statuses()


def _source_of(sources: tuple[Source, ...], row: Row) -> Source:
    resource_type = row.refs[0].partition("/")[0]
    for source in sources:
        if source.type == resource_type:
            return source
    return sources[0]
