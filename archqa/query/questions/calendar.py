"""What the words of a date or a length of time mean: the calendar of both dialects.

A dialect has its own phrases, as regular expressions made of the parts here: dates are named groups
`year`, `month`, `name` (of a month), `day` and `clock`, lengths are `count` and `unit`.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from archqa.fhir.values.text import normalise_text
from archqa.query.scope import Ago, Span, Unit

Relation = Literal["in", "since", "after", "before", "until"]
RelationPatterns = Mapping[Relation, re.Pattern[str]]
Groups = Mapping[str, str]
"""The named groups that took part in a match."""

_NUMBERS = [
    *("one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
]
MONTHS = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
"""The first three letters of each month."""
_UNITS: dict[str, Unit] = {
    "mi": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
    "m": "month",
    "y": "year",
}
"""Units by the first letters of their names and abbreviations."""

NUMBER = "|".join(_NUMBERS)
MONTH = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
MONTH_NUMBER = r"(?P<month>0?[1-9]|1[0-2])"
DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?(?!\d)"
_STATED_TIME = re.compile(
    r"(?:current (?:time|date)|today|now|clock)\D{0,30}?(\d{4}-\d\d-\d\d)(?:[ t](\d\d:\d\d(?::\d\d)?))?"
)


class FoundSpan(NamedTuple):
    """Spans that hold together, and the offsets of their words."""

    spans: tuple[Span, ...]
    start: int
    end: int


def read_stated_time(context: str) -> str | None:
    """The time of the question that a context states: "Today is 2153-12-31."; None if it states none."""
    match = _STATED_TIME.search(normalise_text(context))
    return timestamp_of(match) if match else None


def timestamp_of(match: re.Match[str]) -> str:
    """A date and a time of day, groups 1 and 2, as ISO 8601; a date alone is the end of its day."""
    return f"{match[1]}T{match[2] or '23:59:00'}"


def groups_of(match: re.Match[str]) -> dict[str, str]:
    """The named groups of a match that are not empty."""
    return {name: group for name, group in match.groupdict().items() if group}


def is_month(word: str) -> bool:
    """Whether a word is the name of a month."""
    return re.fullmatch(MONTH, word) is not None


def read_date(groups: Groups) -> dict[str, Any]:
    """The fields of a `Span` that a date says.

    Besides the groups above, it may be `today`, `yesterday`, or a `period` (month, year) that is
    counted `back`: "this month", "the year before last". A `year` may be such words, too.
    """
    if "today" in groups:
        return {"days_back": 0}
    if "yesterday" in groups:
        return {"days_back": 2 if "before" in groups["yesterday"] else 1}
    fields: dict[str, Any] = {}
    if "period" in groups:
        fields[f"{groups['period']}s_back"] = _count_back(groups["back"])
    if "year" in groups:
        is_number = groups["year"].isdecimal()
        fields |= (
            {"year": int(groups["year"])}
            if is_number
            else {"years_back": _count_back(groups["year"])}
        )
    for part in ("month", "day"):
        if part in groups:
            fields[part] = int(groups[part])
    if "name" in groups:
        fields["month"] = MONTHS.index(groups["name"][:3]) + 1
    if "clock" in groups:
        fields["clock"] = (
            groups["clock"] if groups["clock"][2] == ":" else f"0{groups['clock']}"
        )
    return fields


def _count_back(text: str) -> int:
    """How many months or years ago: this one, the last one, the one before."""
    if "before last" in text:
        return 2
    return 0 if re.search(r"\b(?:this|current|present|ongoing)\b", text) else 1


def read_length(groups: Groups) -> Ago:
    """A length of time: "3 days", "a couple of weeks", "half a year", "week"."""
    unit = next(
        unit for start, unit in _UNITS.items() if groups["unit"].startswith(start)
    )
    count = groups.get("count", "")
    if count == "half a":
        return (
            Ago(count=6, unit="month") if unit == "year" else Ago(count=15, unit="day")
        )
    if count.isdecimal():
        return Ago(count=int(count), unit=unit)
    if count in _NUMBERS:
        return Ago(count=_NUMBERS.index(count) + 1, unit=unit)
    if "couple" in count:
        return Ago(count=2, unit=unit)
    return Ago(count=3 if "few" in count else 1, unit=unit)


def make_span(relation: Relation, fields: Mapping[str, Any]) -> Span | None:
    """The span of these fields; None if there is no such date."""
    try:
        return Span(relation=relation, **fields)
    except ValueError:
        return None


def relation_before(
    text: str, start: int, patterns: RelationPatterns, *, skipped: str = ""
) -> tuple[Relation, int]:
    """The relation that the words before a date express, and where they begin.

    Without such words it is "in", and begins with the date. `skipped` are signs before the date.
    """
    text_before = text[:start].rstrip(skipped)
    for relation, pattern in patterns.items():
        match = pattern.search(text_before)
        if match:
            return relation, match.start()
    return "in", start
