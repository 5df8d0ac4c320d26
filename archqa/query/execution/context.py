"""One question under way: what is asked, of whom, by which conventions, and what was noticed on the way."""

from dataclasses import dataclass, field
from datetime import datetime

from archqa.fhir import Resource
from archqa.query.conventions import Conventions
from archqa.query.execution.chart import Chart
from archqa.query.execution.elements import text_at
from archqa.query.execution.rows import Row, parse_datetime, without_timezone
from archqa.query.execution.time_windows import ALL_TIME, Window, resolve_now, resolve_window
from archqa.query.model import Query
from archqa.query.scope import Visit, When

_ORDER = {
    "first": 0,
    "second": 1,
    "third": 2,
    "third_to_last": -3,
    "second_to_last": -2,
    "last": -1,
}


@dataclass
class ExecutionContext:
    """One question under way. `warnings` and `searched` fill up; each sentence stands there once."""

    query: Query
    chart: Chart
    ways: Conventions
    warnings: dict[str, None] = field(default_factory=dict)
    searched: dict[str, None] = field(default_factory=dict)

    @property
    def now(self) -> datetime | None:
        """What time it is, on the wall clock."""
        return resolve_now(self.query.now, self.ways)

    def warn(self, text: str) -> None:
        """Take note of something the reader of the answer should know."""
        self.warnings[text] = None

    def scope(self, when: When) -> "Scope":
        """What a `when` means for this patient."""
        within = resolve_window(when.spans, self.now, self.ways)
        if when.visit is None:
            return Scope(self, within)
        visit = self._visit(when.visit)
        if visit is None:
            self.warn(f"The record has no such visit: {when.visit}.")
        return Scope(self, within, when.visit, visit)

    def _visit(self, wanted: Visit) -> Resource | None:
        stays = (
            self.chart.encounters.icu if wanted.kind == "icu" else self.chart.encounters.hospital
        )
        if wanted.which != "current":
            at = _ORDER[wanted.which]
            return stays.nth(at + 1 if at >= 0 else at)
        found = stays.current
        if found is None and self.ways.current_visit == "latest" and stays.last is not None:
            kind = "ICU stay" if wanted.kind == "icu" else "hospital visit"
            self.warn(
                f"No {kind} is still open: the most recent one stands in for the current one."
            )
            return stays.last
        return found


@dataclass(frozen=True)
class Scope:
    """A window of time and perhaps a visit."""

    context: ExecutionContext
    window: Window = ALL_TIME
    wanted: Visit | None = None
    visit: Resource | None = None

    @property
    def visit_not_found(self) -> bool:
        """Whether a visit is asked for that there is not."""
        return self.wanted is not None and self.visit is None

    @property
    def visit_id(self) -> str:
        """The id of the visit; empty if none is asked for."""
        return str(self.visit.get("id")) if self.visit else ""

    @property
    def icu_stay_ids(self) -> list[str]:
        """The ids of the ICU stays that are the visit, or part of it."""
        if self.visit is None or self.wanted is None:
            return []
        if self.wanted.kind == "icu":
            return [self.visit_id]
        return [
            str(each["id"]) for each in self.context.chart.encounters.icu.within(self.visit).all
        ]

    def holds(self, row: Row) -> bool:
        """Whether a row lies within the visit, whatever its time."""
        if self.wanted is None:
            return True
        if self.visit is None or (not row.visit and self.context.ways.requires_encounter):
            return False
        if self.wanted.kind == "hospital":
            return row.visit == self.visit_id if row.visit else self._during(row)
        whole = self.context.chart.stays[self.visit_id].visit
        if row.icu_stay_id:
            return row.icu_stay_id == self.visit_id
        return row.visit in {"", whole} and self._during(row)

    def _during(self, row: Row) -> bool:
        """Whether the row's time lies in the visit's period, both ends included."""
        start, end = (
            without_timezone(parse_datetime(text_at(self.visit, f"period.{each}")))
            for each in ("start", "end")
        )
        time = row.wall
        return (
            time is not None
            and start is not None
            and start <= time
            and (end is None or time <= end)
        )


def position_index(name: str) -> int:
    """Where in the order of time: 0 is the first, -1 the last."""
    return _ORDER[name]


def uses_end_time(query: Query) -> bool:
    """Whether "first" and "in 2147" speak of the end: a discharge, or the leaving of a unit."""
    return query.returns == "end_time" and query.what in {"hospital_visit", "icu_stay", "care_unit"}
