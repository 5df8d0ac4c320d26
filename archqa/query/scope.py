"""When: the visit, the spans of calendar time, and the position in the order of time.

"The last time on the first ICU visit since 03/this year" is one visit, one span and one position.
"""

import calendar
import re
from typing import Literal, Self

from pydantic import Field, model_validator

from archqa.core.value import FrozenModel

Position = Literal[
    "first", "second", "third", "third_to_last", "second_to_last", "last"
]
"""The position in the order of time; all rows of one time count as one."""

VisitKind = Literal["hospital", "icu", "emergency", "ambulatory", "encounter"]
"""encounter: a contact of any class."""

Unit = Literal["minute", "hour", "day", "week", "month", "year"]


_CLOCK = re.compile(r"([01][0-9]|2[0-3])(:[0-5][0-9]){1,2}")


_VISIT_NOUNS: dict[VisitKind, str] = {
    "hospital": "hospital visit",
    "icu": "ICU stay",
    "emergency": "emergency visit",
    "ambulatory": "office visit",
    "encounter": "visit",
}


class Visit(FrozenModel):
    """A visit of the patient: the first or last by its start, the current one, which has not ended, or any.

    It includes the rows that name its encounter and, of those that name none, what lies within its period.
    """

    kind: VisitKind
    which: Position | Literal["current", "any"]

    @property
    def position(self) -> Position | None:
        """The position in time, if it is one visit by its start."""
        return None if self.which == "current" or self.which == "any" else self.which

    @property
    def noun(self) -> str:
        """What visits of this kind are called."""
        return _VISIT_NOUNS[self.kind]

    def __str__(self) -> str:
        if self.which == "any":
            return f"any {self.noun}"
        return f"the {self.which.replace('_', ' ')} {self.noun}"


class Ago(FrozenModel):
    """A length of time counted back from the clock: "since 3 months ago"."""

    count: int = Field(ge=0)
    unit: Unit

    def __str__(self) -> str:
        if self.count == 1:
            return f"1 {self.unit} ago"
        return f"{self.count} {self.unit}s ago"


class Span(FrozenModel):
    """A stretch of calendar time, as precise as its smallest part: a year, a month, a day, a minute or a second.

    A year, month or day is either a number (2147, 11, 30) or counted back from the clock's own (0: this one, 1: the
    last one). "On 03/12/this year": years_back=0, month=3, day=12. "On last month/29": months_back=1, day=29.
    "Yesterday": days_back=1. "Since 3 months ago": relation since, ago=3 months.
    """

    relation: Literal["in", "since", "after", "before", "until"] = "in"
    """in: within the stretch; since/until: with its own part; after/before: without."""

    year: int | None = Field(default=None, ge=1, le=9999)
    month: int | None = Field(default=None, ge=1, le=12)
    day: int | None = Field(default=None, ge=1, le=31)
    clock: str | None = None
    """Time of day, 24 hours: 21:00 or 21:00:00. Needs a day."""

    years_back: int | None = Field(default=None, ge=0)
    """0: this year, 1: last year."""

    months_back: int | None = Field(default=None, ge=0)
    """0: this month, 1: last month."""

    days_back: int | None = Field(default=None, ge=0)
    """0: today, 1: yesterday."""

    ago: Ago | None = None
    """A length before the clock; then nothing else is given."""

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        anchors = [
            self.year,
            self.years_back,
            self.months_back,
            self.days_back,
            self.ago,
        ]
        if anchors.count(None) != len(anchors) - 1:
            raise ValueError(
                "a span names exactly one of year, years_back, months_back, days_back and ago"
            )
        has_year = self.year is not None or self.years_back is not None
        if self.month is not None and not has_year:
            raise ValueError("a month needs its year or years_back")
        if self.day is not None and self.month is None and self.months_back is None:
            raise ValueError("a day needs its month or months_back")
        if self.clock is not None:
            if self.day is None and self.days_back is None:
                raise ValueError("a time of day needs its day or days_back")
            if not _CLOCK.fullmatch(self.clock):
                raise ValueError(
                    f"{self.clock!r} is no time of day such as 21:00 or 21:00:00"
                )
        return self

    @property
    def is_relative(self) -> bool:
        """Whether the time of the question is needed."""
        return self.year is None

    def __str__(self) -> str:
        date = self._date_text()
        if self.clock:
            date = f"{date} at {self.clock}"
        if self.relation != "in":
            return f"{self.relation} {date}"
        if self._is_adverb:
            return date
        if self.day or self.days_back:
            return f"on {date}"
        return f"in {date}"

    @property
    def _is_adverb(self) -> bool:
        """Whether it needs no preposition: this year, last month, today."""
        if self.days_back is not None:
            return self.days_back < 2
        if self.months_back is not None:
            return not self.day and self.months_back < 2
        return (
            self.years_back is not None and self.month is None and self.years_back < 2
        )

    def _date_text(self) -> str:
        if self.ago is not None:
            return str(self.ago)
        if self.days_back is not None:
            return _back_text(self.days_back, "day", ("today", "yesterday"))
        if self.months_back is not None:
            month = _back_text(self.months_back, "month", ("this month", "last month"))
            return f"day {self.day} of {month}" if self.day else month
        if self.year:
            year = year_after_month = str(self.year)
        else:
            year = _back_text(self.years_back or 0, "year", ("this year", "last year"))
            year_after_month = f"of {year}"
        if self.month is None:
            return year
        month = f"{calendar.month_name[self.month]} {year_after_month}"
        return f"{self.day} {month}" if self.day else month


class When(FrozenModel):
    """Which visit, which spans (all of them), and which one in the order of time. Empty: ever, all of them."""

    visit: Visit | None = None
    spans: tuple[Span, ...] = ()
    position: Position | None = None

    def __str__(self) -> str:
        parts = []
        if self.visit:
            parts.append(f"during {self.visit}")
        parts += map(str, self.spans)
        return ", ".join(parts)


def _back_text(count: int, unit: str, phrases: tuple[str, str]) -> str:
    if count < 2:
        return phrases[count]
    return f"the {unit} {count} {unit}s before"
