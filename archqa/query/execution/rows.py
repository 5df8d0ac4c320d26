"""One row of a record: a result, a drug of an order, a visit, with the resources it stands in."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Literal

from archqa.fhir.values.dates import DAY, LATEST, parse_time_range


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a row says. `time` keeps its zone if the record has one; `refs` are `Type/id`, the first holds the row.

    `facts` is what else can be asked for, by the query's word for it: route, dose, specimen, sex. `visit` and `stay`
    are the ids of the hospital visit and the ICU stay. `holders` say something of the row without being evidence: the
    Encounter that tells when a patient was in a care unit. `whole` and `parts`: the mix a drug is part of, and how
    many drugs that has. `chosen`: the answer rests on it; `side`: which side of a comparison it belongs to.
    """

    refs: tuple[str, ...]
    name: str = ""
    names: tuple[str, ...] = ()
    time: datetime | None = None
    end: datetime | None = None
    authored_on: datetime | None = None
    value: float | None = None
    text: str = ""
    unit: str = ""
    comparator: str = ""
    visit: str = ""
    icu_stay_id: str = ""
    context_refs: tuple[str, ...] = ()
    whole: str = ""
    parts: int = 1
    facts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    chosen: bool = False
    side: Literal["own", "other"] = "own"

    @property
    def wall(self) -> datetime | None:
        """The time on the clock of whoever wrote it down, without a zone."""
        return without_timezone(self.time)


def without_timezone(time: datetime | None) -> datetime | None:
    """A time on the clock of whoever wrote it down, without a zone."""
    return None if time is None else time.replace(tzinfo=None)


@lru_cache(maxsize=65536)
def parse_datetime(text: str | None) -> datetime | None:
    """A FHIR date, dateTime or instant as the moment at which it begins; None if it is none."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        found = parse_time_range(text)
    if found is None or found.low >= LATEST:
        return None
    days, rest = divmod(found.low, DAY)
    return datetime.combine(datetime.fromordinal(days).date(), datetime.min.time()).replace(
        hour=rest // 3_600_000_000, minute=rest // 60_000_000 % 60, second=rest // 1_000_000 % 60
    )
