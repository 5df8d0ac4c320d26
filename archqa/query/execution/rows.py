"""One row of a record: a result, a drug of an order, a visit, with the resources that hold it."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple

from archqa.fhir.values.dates import DAY, LATEST, parse_time_range
from archqa.query.values import Interval, interval_of

Side = Literal["own", "other"]
RowState = Literal["current", "ended", "neither", "unknown"]
"""neither: on hold, or not begun; unknown: the record does not say."""

CurrencyReason = Literal[
    "supplied",
    "supply_over",
    "supply_unknown",
    "never_ended",
    "later_order",
    "death",
]


class Currency(NamedTuple):
    """What tells whether a medicine is current besides its own status, and what it then is.

    `date` is the end of the supply, or that of the later order or the death; `status` that of the
    later order; `days` the length of the supply, `dispensed` its date where the row is its order;
    `refs` are the resources that say it.
    """

    reason: CurrencyReason
    state: RowState
    date: datetime | None = None
    status: str = ""
    days: float | None = None
    dispensed: datetime | None = None
    refs: tuple[str, ...] = ()


class Coding(NamedTuple):
    """A code of a record and what it is called there; a text without code has neither."""

    system: str
    code: str
    display: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of a record.

    refs: the supporting resources as `Type/id`; the first one holds the row itself.
    name, names: the preferred name, and every name.
    codings: the codes that the names stand for.
    time, end: start and end, with a time zone if the record has one.
    hospital_visit_id, icu_stay_id: ids of the encounters the row belongs to; empty if none.
    context_refs: resources that say something about the row without being evidence, such as the
        Encounter that tells when a patient was in a care unit.
    mixture_ref, ingredient_count: the mixture a drug is part of, and its number of drugs.
    value, text, unit, comparator: the value. `value` is a number or, with a comparator, a bound;
        `text` what is written where it is no plain number, such as `11 to 13` or `6.3 (HH)`.
    facts: further attributes by the name a query uses: route, specimen, sex. `status` holds every
        status of the resource, `flag` what its interpretation or reference range says, `panel` the
        names of the panel that a component belongs to, `reference_range` that range as text.
    reason_codings, reason_refs: codes of the reasons, and the resources that state them; filled
        only for queries about reasons.
    chosen: whether the answer rests on the row.
    side: the side of a comparison it belongs to.
    currency: what tells whether a medicine is current besides its status.
    """

    refs: tuple[str, ...]
    name: str = ""
    names: tuple[str, ...] = ()
    codings: tuple[Coding, ...] = ()
    time: datetime | None = None
    end: datetime | None = None
    authored_on: datetime | None = None
    value: float | None = None
    text: str = ""
    unit: str = ""
    comparator: str = ""
    hospital_visit_id: str = ""
    icu_stay_id: str = ""
    context_refs: tuple[str, ...] = ()
    mixture_ref: str = ""
    ingredient_count: int = 1
    facts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reason_codings: tuple[Coding, ...] = ()
    reason_refs: tuple[str, ...] = ()
    chosen: bool = False
    side: Side = "own"
    currency: Currency | None = None

    @property
    def interval(self) -> Interval | None:
        """The numbers that the value may be; None where it is none."""
        return interval_of(self.value, self.comparator, self.text)

    @property
    def local_time(self) -> datetime | None:
        """The start on the local clock of whoever recorded it, without a time zone."""
        return without_timezone(self.time)

    @property
    def local_end(self) -> datetime | None:
        """The end on the local clock of whoever recorded it, without a time zone."""
        return without_timezone(self.end)

    @property
    def duration(self) -> timedelta | None:
        """From start to end; None for what has not ended."""
        if self.local_time is None or self.local_end is None:
            return None
        return self.local_end - self.local_time


def longest_rows(
    rows: Iterable[Row], extreme: Literal["minimum", "maximum"]
) -> list[Row]:
    """The rows with the shortest or longest duration, of those that have ended."""
    ended = [row for row in rows if row.duration is not None]
    durations = [row.duration for row in ended if row.duration is not None]
    if not durations:
        return []
    wanted = min(durations) if extreme == "minimum" else max(durations)
    return [row for row in ended if row.duration == wanted]


def extreme_rows(
    rows: Iterable[Row], extreme: Literal["minimum", "maximum"]
) -> tuple[list[Row], list[Row]]:
    """The rows with the smallest or largest value, and those that may exceed it.

    Among the latter are texts that cannot be compared. Of bounds, `>8` is larger than 8; that `<5`
    is the largest value can only be said where all values are such bounds.
    """
    best: tuple[float, bool, float] | None = None
    extreme_ones: list[Row] = []
    intervals: list[tuple[Row, Interval | None]] = []
    for row in rows:
        interval = row.interval
        if interval is not None and extreme == "minimum":
            interval = interval.negative
        intervals.append((row, interval))
        if interval is None:
            continue
        size = (interval.low, not interval.includes_low, interval.high)
        if best is None or size > best:
            best, extreme_ones = size, []
        if size == best:
            extreme_ones.append(row)
    undecided = []
    for row, interval in intervals:
        if interval is None:
            exceeds = bool(row.text)
        else:
            exceeds = best is not None and interval.high > best[0] > -math.inf
        if exceeds and row not in extreme_ones:
            undecided.append(row)
    return extreme_ones, undecided


def without_timezone(time: datetime | None) -> datetime | None:
    """A time on the local clock of whoever recorded it, without a time zone."""
    if time is None:
        return None
    return time.replace(tzinfo=None)


@lru_cache(maxsize=65536)
def parse_datetime(text: str | None) -> datetime | None:
    """The moment at which a FHIR date, dateTime or instant begins; None if the text is none."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        time_range = parse_time_range(text)
        if time_range is None or time_range.low >= LATEST:
            return None
        days, microseconds = divmod(time_range.low, DAY)
        midnight = datetime.combine(
            datetime.fromordinal(days).date(), datetime.min.time()
        )
        return midnight.replace(
            hour=microseconds // 3_600_000_000,
            minute=microseconds // 60_000_000 % 60,
            second=microseconds // 1_000_000 % 60,
        )
