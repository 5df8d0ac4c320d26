"""Stretches of calendar time that a question names: dates, since and before, the last five years.

"From" before a date means "of" it unless an end or "on" follows, and "after 2019" leaves 2019 out:
people ask so of a record, while the grammar of FHIR-AgentBench follows the wordings of EHRSQL.
"""

import re
from collections.abc import Iterator
from datetime import date
from functools import cache
from typing import Any, NamedTuple

from archqa.query.questions.calendar import (
    DAY,
    MONTH,
    MONTH_NUMBER,
    NUMBER,
    FoundSpan,
    Relation,
    RelationPatterns,
    groups_of,
    make_span,
    read_date,
    read_length,
    relation_before,
)
from archqa.query.scope import Span

_YEAR = r"(?P<year>(?:19|2[012])\d\d)"
"""Up to 2299: dates of de-identified records are shifted into the future."""
_DAY = rf"(?:the )?{DAY}"
_UNIT = r"(?P<unit>days?|weeks?|wks?|months?|mos?|years?|yrs?)"
_COUNT = rf"(?P<count>\d+|{NUMBER}|couple(?: of)?)"
_DATES = (
    rf"{_YEAR}-{MONTH_NUMBER}-(?P<day>\d\d)",
    rf"{MONTH_NUMBER}[/-](?P<day>\d\d?)[/-]{_YEAR}",
    rf"(?P<day>1[3-9]|2\d|3[01])[/.-]{MONTH_NUMBER}[/.-]{_YEAR}",
    rf"{MONTH} {_DAY},? (?:of )?{_YEAR}",
    rf"{_DAY}(?: of)? {MONTH},? {_YEAR}",
    rf"{MONTH},? (?:of )?{_YEAR}",
    rf"{_YEAR}[-/]{MONTH_NUMBER}(?!\d)",
    rf"{MONTH_NUMBER}/{_YEAR}",
    rf"(?:the )?(?:calendar )?(?:year )?{_YEAR}(?: calendar year)?",
    r"(?P<today>today)|(?P<yesterday>yesterday)",
    r"(?P<back>this|(?<!the )last|the previous) (?:calendar )?(?P<period>month|year)",
    rf"{MONTH} (?P<year>(?:this|last) year)",
)
_BARE_MONTHS = (rf"{MONTH}(?: {_DAY})?(?![\d/])", rf"{_DAY}(?: of)? {MONTH}")
_AGO = rf"(?:an?|{_COUNT}) {_UNIT} (?:ago|back|before now)"
_BACK = (
    rf"(?:the )?(?:last|past|previous|preceding) (?:{_COUNT} )?{_UNIT}",
    rf"(?<=within ){_COUNT} {_UNIT}",
)
_DECADE = r"the (?P<decade>(?:19|2[012])\d0)s"
_YEARS = r"(?P<first>(?:19|2[012])\d\d) ?(?:-|to|through) ?(?P<last>(?:19|2[012])\d\d)"
_SEASON = rf"(?:the )?(?P<season>spring|summer|fall|autumn|winter)(?: of)?,? {_YEAR}"
_SEASONS = {"spring": 3, "summer": 6, "fall": 9, "autumn": 9, "winter": 12}
"""The first month of each, in the northern hemisphere; a winter lasts into the next year."""
_RELATIONS: dict[Relation, str] = {
    "since": r"(?:ever |dating )?since|starting(?: in| on| from)?|beginning(?: in| on)?|onwards? from",
    "after": r"after|following|later than",
    "before": r"before|prior to|earlier than|preceding",
    "until": r"until|till|through|up to|up until|by",
    "in": r"(?:back )?in|on|during|at|within|over|throughout|of|for|from|dated?|in the year",
}
_RELATION_PATTERNS: RelationPatterns = {
    relation: re.compile(rf"\b(?:{pattern})(?: the| her| his| my)? $")
    for relation, pattern in _RELATIONS.items()
}
_NOW = r"(?:now|today|(?:the )?present|the present day|this day|date)"
_ONWARDS = re.compile(
    r",? (?:onwards?|on|and (?:later|after|onwards?|on)|or later|to " + _NOW + r")\b"
)
_VISIT_NOUN = re.compile(
    r" (?:check-?up|check up|visit|appointment|physical|exam|examination|annual)(?![a-z])"
)
"""A visit that only dates something: "the 2019 checkup"."""


_OPENING = re.compile(r"\b(?:between|from)(?: the)? ?$")
_RANGE_JOINT = re.compile(r" ?(?:and|to|until|till|through|-) ?(?:the )?")
_UNTIL_NOW = re.compile(_NOW + r"(?![a-z])")
_JOINT = re.compile(r" ?(?:and|to|until|till|through|-|/) ?(?:the )?")
_MONTH_FIELDS = {"year", "month"}


class _Date(NamedTuple):
    """The fields of a span, and the offsets of the words of the date alone."""

    fields: dict[str, Any]
    start: int
    end: int
    has_year: bool = True
    """Whether its words name the year."""


def find_spans(text: str, today: date | None = None) -> tuple[FoundSpan, ...]:
    """The spans of a plain text in lower case, in its order.

    A month without a year is the last such month before `today`; without `today` it is no span.
    """
    candidates = [*_lengths(text), *_longer_stretches(text)]
    dates = list(_dates(text, today))
    if dates:
        candidates = [*_spans_of_dates(text, dates), *candidates]
    found: list[FoundSpan] = []
    for candidate in sorted(candidates, key=lambda each: (each.start, -each.end)):
        if not found or candidate.start >= found[-1].end:
            found.append(candidate)
    return tuple(found)


def _spans_of_dates(text: str, dates: list[_Date]) -> Iterator[FoundSpan]:
    """Ranges from one date to another, then each date with its relation."""
    dates = list(_with_shared_years(text, dates))
    # Of the others, neither the words nor the time of the question tell the year.
    dates = [each for each in dates if each.fields.keys() - {"month", "day"}]
    yield from _ranges(text, dates)
    yield from _neighbouring_months(text, dates)
    for each in dates:
        yield _with_relation(text, each)


def _longer_stretches(text: str) -> Iterator[FoundSpan]:
    """Decades, years from one to another, and seasons."""
    for match in _compiled(_DECADE).finditer(text):
        decade = int(match["decade"])
        yield _stretch(text, match, {"year": decade}, {"year": decade + 9})
    for match in _compiled(_YEARS).finditer(text):
        first, last = int(match["first"]), int(match["last"])
        stretch = _stretch(text, match, {"year": first}, {"year": last})
        if first <= last and len(stretch.spans) == 2:
            yield stretch
    for match in _compiled(_SEASON).finditer(text):
        month, year = _SEASONS[match["season"]], int(match["year"])
        last_month = {"year": year + month // 12, "month": (month + 1) % 12 + 1}
        yield _stretch(text, match, {"year": year, "month": month}, last_month)


def _stretch(
    text: str, match: re.Match[str], first: dict[str, Any], last: dict[str, Any]
) -> FoundSpan:
    """The spans from one date to another, or the one before, since or after both."""
    relation, start = relation_before(text, match.start(), _RELATION_PATTERNS)
    if relation in {"before", "since"}:
        return FoundSpan((Span(relation=relation, **first),), start, match.end())
    if relation in {"after", "until"}:
        return FoundSpan((Span(relation=relation, **last),), start, match.end())
    return FoundSpan(_since_until(first, last), start, match.end())


def _since_until(first: dict[str, Any], last: dict[str, Any]) -> tuple[Span, Span]:
    return Span(relation="since", **first), Span(relation="until", **last)


def _dates(text: str, today: date | None) -> Iterator[_Date]:
    """The dates without overlap, the most exact first."""
    taken: list[tuple[int, int]] = []
    for pattern in (*_DATES, *_BARE_MONTHS):
        for match in _compiled(pattern).finditer(text):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            fields = _date_fields(match, today)
            if fields and (pattern in _BARE_MONTHS or make_span("in", fields)):
                taken.append(match.span())
                yield _Date(fields, *match.span(), has_year=pattern not in _BARE_MONTHS)


def _with_shared_years(text: str, dates: list[_Date]) -> Iterator[_Date]:
    """The dates; one without a year that is joined to one with a year has the same year.

    "Between February 24 and March 4, 2196": the year of March is that of February. A later month
    is one of the year before: "from December to March 2020".
    """
    for each in dates:
        other = _joined_date(text, dates, each)
        if each.has_year or other is None or "year" not in other.fields:
            yield each
            continue
        is_earlier = each.fields["month"] <= other.fields.get("month", 12)
        year = other.fields["year"] if is_earlier else other.fields["year"] - 1
        fields = {**each.fields, "year": year}
        if make_span("in", fields):
            yield each._replace(fields=fields)


def _joined_date(text: str, dates: list[_Date], first: _Date) -> _Date | None:
    """The date right after another and a word or sign between them."""
    for other in dates:
        if other.start > first.end and _JOINT.fullmatch(text, first.end, other.start):
            return other
    return None


def _neighbouring_months(text: str, dates: list[_Date]) -> Iterator[FoundSpan]:
    """July and August 2180 are one stretch."""
    for first in dates:
        last = _joined_date(text, dates, first)
        if last is None or not all(
            each.fields.keys() == _MONTH_FIELDS for each in (first, last)
        ):
            continue
        if _month_number(last) - _month_number(first) == 1:
            relation, start = relation_before(text, first.start, _RELATION_PATTERNS)
            if relation == "in":
                yield FoundSpan(
                    _since_until(first.fields, last.fields), start, last.end
                )


def _month_number(each: _Date) -> int:
    return int(12 * each.fields["year"] + each.fields["month"])


def _ranges(text: str, dates: list[_Date]) -> Iterator[FoundSpan]:
    """From A to B, between A and B, A to B; B may be now."""
    for first in dates:
        opening = _OPENING.search(text[: first.start])
        start = opening.start() if opening else first.start
        joint = _RANGE_JOINT.match(text, _end_of_visit_noun(text, first.end))
        if joint is None or (not opening and "and" in joint[0]):
            continue
        now = _UNTIL_NOW.match(text, joint.end())
        if now:
            yield FoundSpan((Span(relation="since", **first.fields),), start, now.end())
        for last in dates:
            if last.start == joint.end() and "days_back" not in last.fields:
                spans = _since_until(first.fields, last.fields)
                yield FoundSpan(spans, start, _end_of_visit_noun(text, last.end))


def _with_relation(text: str, each: _Date) -> FoundSpan:
    relation, start = relation_before(text, each.start, _RELATION_PATTERNS)
    end = _end_of_visit_noun(text, each.end)
    onwards = _ONWARDS.match(text, end)
    if onwards and relation == "in":
        relation, end = "since", onwards.end()
    return FoundSpan((Span(relation=relation, **each.fields),), start, end)


def _end_of_visit_noun(text: str, end: int) -> int:
    visit = _VISIT_NOUN.match(text, end)
    return visit.end() if visit else end


def _lengths(text: str) -> Iterator[FoundSpan]:
    for match in _compiled(_AGO).finditer(text):
        yield _time_ago(text, match)
    for pattern in _BACK:
        for match in _compiled(pattern).finditer(text):
            if match["count"] is None and match["unit"].endswith("s"):
                continue
            relation, start = relation_before(text, match.start(), _RELATION_PATTERNS)
            relation = "before" if relation in {"before", "until"} else "since"
            span = Span(relation=relation, ago=read_length(groups_of(match)))
            yield FoundSpan((span,), start, match.end())


def _time_ago(text: str, match: re.Match[str]) -> FoundSpan:
    """Three days ago is a day; since or more than three days ago is a stretch."""
    ago = read_length(groups_of(match))
    more = re.search(r"\b(?:more than|over|longer than) $", text[: match.start()])
    if more:
        return FoundSpan((Span(relation="before", ago=ago),), more.start(), match.end())
    relation, start = relation_before(text, match.start(), _RELATION_PATTERNS)
    if relation != "in":
        return FoundSpan((Span(relation=relation, ago=ago),), start, match.end())
    unit, count = ago.unit, ago.count
    if unit == "week":
        unit, count = "day", 7 * count
    span = Span.model_validate({f"{unit}s_back": count})
    return FoundSpan((span,), start, match.end())


def _date_fields(match: re.Match[str], today: date | None) -> dict[str, Any]:
    groups = groups_of(match)
    fields = read_date(groups)
    if "month" in fields and "year" not in groups and today is not None:
        # The year of the last such month, or day, that has begun.
        is_past = (fields["month"], fields.get("day", 1)) <= (today.month, today.day)
        fields["year"] = today.year if is_past else today.year - 1
    return fields


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z\d.])(?<!\d[/-])(?:{pattern})(?![a-z\d]|\.\d)")
