"""Spans of time in a question: dates in their various forms, since and before, days ago."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from archqa.query.questions.ehrsql.text import MaskedText
from archqa.query.scope import Ago, Span, Unit

Relation = Literal["in", "since", "after", "before", "until"]

_NUMBERS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
_COUNT = rf"(?P<count>\d+|an?|{'|'.join(_NUMBERS)}|(?:a )?couple(?: of)?|(?:a )?few|half a)"
_UNIT = (
    r"(?P<unit>minutes?|mins?|hours?|hrs?|h|days?|weeks?|wks?|months?|mths?|mos?|years?|yrs?)"
    r"(?:'s?)?(?: time)?(?![a-z])"
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    r"oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_LAST = r"(?:last|previous|prior)"
_THIS = r"(?:this|(?:the )?(?:current|present|ongoing))"
_YEAR = (
    r"(?P<year>(?:1[89]|2\d)\d\d(?!\d|[.:,]\d)|"
    rf"(?:of )?(?:{_THIS}|(?:the )?{_LAST}|the year before) ?(?:calendar )?years?\b"
    r"|(?:the )?year before last)(?:'s)?"
)
_OF = r"(?:,? ?(?:of|in|/|-|,)? ?)"
_DD = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?(?!\d)"
_MM = r"(?P<month>0?[1-9]|1[0-2])"
_TIME = r"(?:(?:,? at |[ t]|, ?)(?P<clock>[0-2]?\d:\d\d(?::\d\d)?)(?:\.0+)?(?: ?hrs| ?hours|z)?)?"
_BACK = rf"(?P<back>{_THIS}|(?:the )?{_LAST}) ?months?\b(?:'s)?"

# In the order of trust: what is longer and clearer comes first.
_DATES = [
    rf"(?P<year>(?:1[89]|2\d)\d\d)[-/.]{_MM}[-/.]{_DD}{_TIME}",
    rf"(?P<clock>[0-2]?\d:\d\d(?::\d\d)?)(?: ?hrs| ?hours)? (?:on )?(?P<year>(?:1[89]|2\d)\d\d)[-/.]{_MM}[-/.]{_DD}",
    rf"(?<![\d/]){_MM}[-/.]{_DD}(?:[-/.]|,? )(?:of )?{_YEAR}{_TIME}",
    rf"(?:the )?(?<!\d){_DD}{_OF}{_MONTH}{_OF}{_YEAR}{_TIME}",
    rf"{_MONTH} (?:the )?{_DD}{_OF}{_YEAR}{_TIME}",
    rf"{_BACK}(?: ?/ ?|,? on (?:the |day )?|,? (?:the |day ))(?<!\d){_DD}",
    rf"(?:the |day )?(?<!\d){_DD}(?: day)?(?: of| in)? {_BACK}",
    rf"(?<![\d/.]){_MM} ?[-/] ?{_YEAR}(?![/-]\d)",
    rf"(?P<year>(?:1[89]|2\d)\d\d)[-/]{_MM}(?![\d/-])",
    rf"{_MONTH}{_OF}{_YEAR}",
    rf"{_YEAR},? (?:in )?{_MONTH}",
    rf"(?P<today>today|tonight|{_THIS} day)|(?P<yesterday>(?:the )?day before yesterday|"
    r"yesterday|(?:the )?(?:previous|last|prior) day)",
    _BACK,
    r"(?P<before_last>(?:the )?month before last)",
    _YEAR,
]
_LENGTHS = [
    rf"(?:the )?(?:time )?{_COUNT} (?:full )?{_UNIT} (?:ago|back|before now|earlier|prior)",
    rf"(?:the )?(?:{_LAST}|past|preceding|recent|trailing|most recent) {_COUNT} ?(?:full )?{_UNIT}",
    rf"(?:the )?(?:past|preceding) (?P<count>){_UNIT}",
    rf"(?:(?<=\bin )|(?<=\bover )|(?<=\bwithin )|(?<=\bfor ))(?:the )?{_COUNT} ?{_UNIT}",
    r"(?:the )?(?P<count>)(?:last|previous) (?P<unit>week|hour)\b",
]
_BARE_MONTH = (
    rf"(?:(?<=\bin )|(?<=\bsince )|(?<=\bduring )|(?<=\bthroughout ))(?:the month of )?{_MONTH}"
)
_RELATIONS: dict[Relation, str] = {
    "since": r"(?:ever )?since|between|starting(?: from| in| on)?|beginning(?: from| in| on)?|from|as of|as from|"
    r"onwards? from|after|following",
    "before": r"before|prior to|earlier than|preceding|ahead of",
    "until": r"until|till|til|up to|up until|through|by|to|thru|no later than",
    "in": r"in|on|during|at|within|over|throughout|of|for|around|dated?|across|in the course of|as of",
}
_ONWARDS = re.compile(
    r"^,? ?(?:onwards?|and (?:later|after|onwards?|since)|or later|to (?:the )?present|to date|until now|till now|"
    r"up to now)\b"
)
_SO_FAR = re.compile(r"\b(?:so far|to date|up to now|until now)\b")
_IS_AMOUNT = re.compile(
    r"(?:than|above|below|over|under|exceeded|exceeding|exceeds|exceed|least|most|[<>=]) ?$"
)


_UNIT_OF_PREFIX: dict[str, Unit] = {
    "mi": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
    "m": "month",
    "y": "year",
}

Groups = dict[str, str]
"""The named groups that took part in a match."""

FieldReader = Callable[[Groups], dict[str, Any]]
"""Turns the groups of a match into fields of a span."""


class FoundSpan(NamedTuple):
    """A span and the offsets of its words."""

    span: Span
    start: int
    end: int


def find_spans(question: MaskedText) -> list[FoundSpan]:
    """The spans of time in a question, in text order. Masks their words."""
    spans = [
        *_search(question, _DATES, _date_fields),
        *_search(question, _LENGTHS, _length_fields),
        *_search(question, [_BARE_MONTH], _date_fields),
    ]
    spans.sort(key=lambda found_span: found_span.start)
    spans = _resolve_between(question, spans)
    for match in question.find_unmasked(_SO_FAR):
        question.mask(*match.span())
    return spans


def _resolve_between(question: MaskedText, spans: list[FoundSpan]) -> list[FoundSpan]:
    """Between A and B: since A, until B."""
    resolved = spans[:1]
    for previous, current in pairwise(spans):
        gap = question.masked[previous.end : current.start].strip()
        is_between = previous.span.relation == "since" and gap == "and"
        if is_between and current.span.relation == "in":
            question.mask(previous.end, current.start)
            until = current.span.model_copy(update={"relation": "until"})
            resolved.append(current._replace(span=until))
        else:
            resolved.append(current)
    return resolved


def _search(
    question: MaskedText, patterns: list[str], read_fields: FieldReader
) -> Iterator[FoundSpan]:
    for pattern in patterns:
        for match in question.find_unmasked(_compiled(pattern)):
            found_span = _read_span(question.masked, match, read_fields)
            if found_span is not None:
                question.mask(found_span.start, found_span.end)
                yield found_span


def _read_span(text: str, match: re.Match[str], read_fields: FieldReader) -> FoundSpan | None:
    start, end = match.span()
    if _IS_AMOUNT.search(text[:start]) and match.group().isdecimal():
        return None
    groups = {name: group for name, group in match.groupdict().items() if group is not None}
    relation, start = _find_relation(text, start)
    onwards = _ONWARDS.match(text[end:])
    if onwards:
        relation, end = "since", end + onwards.end()
    if relation is None:
        relation = "in"
        if _reaches_until_now(groups, match.group()):
            relation = "since"
    span = _make_span(relation, read_fields(groups))
    if span is None:
        return None
    return FoundSpan(span, start, end)


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z\d])(?:{pattern})(?![\da-z])")


def _make_span(relation: Relation, fields: dict[str, Any]) -> Span | None:
    if not fields:
        return None
    if relation == "in" and "ago" in fields:
        relation, fields = _around(fields["ago"])
    try:
        return Span(relation=relation, **fields)
    except ValueError:
        return None


def _around(ago: Ago) -> tuple[Relation, dict[str, Any]]:
    """Three days ago: that day."""
    if ago.unit in {"day", "month", "year"}:
        return "in", {f"{ago.unit}s_back": ago.count}
    return "since", {"ago": ago}


def _reaches_until_now(groups: Groups, text: str) -> bool:
    """Whether a length reaches until now ("in the last 3 days"), unlike "3 days ago"."""
    return "unit" in groups and not text.endswith(("ago", "back", "before now", "earlier"))


def _find_relation(text: str, start: int) -> tuple[Relation | None, int]:
    """The relation that the word before a date expresses, and where that word begins."""
    text_before = text[:start].rstrip(" ,(")
    for relation, pattern in _RELATION_PATTERNS.items():
        match = pattern.search(text_before)
        if match:
            return (None if relation == "in" else relation), match.start()
    return None, start


_RELATION_PATTERNS: dict[Relation, re.Pattern[str]] = {
    relation: re.compile(rf"\b(?:{pattern})(?: the)?(?: year| month| date| day| time)?(?: of)?$")
    for relation, pattern in _RELATIONS.items()
}


def _date_fields(groups: Groups) -> dict[str, Any]:
    if "today" in groups:
        return {"days_back": 0}
    if "yesterday" in groups:
        return {"days_back": _days_back(groups["yesterday"])}
    if "before_last" in groups:
        return {"months_back": 2}
    fields = _year_fields(groups)
    for part in ("month", "day"):
        if part in groups:
            fields[part] = int(groups[part])
    if "name" in groups:
        fields["month"] = _MONTHS.index(groups["name"][:3]) + 1
    if "clock" in groups:
        fields["clock"] = _padded_clock(groups["clock"])
    return fields


def _days_back(text: str) -> int:
    """ "Yesterday" or "the previous day": 1; "the day before yesterday": 2."""
    if "before" in text:
        return 2
    return 1


def _padded_clock(text: str) -> str:
    """ "9:30" is "09:30"; the seconds stay."""
    hour, minutes_and_seconds = text.split(":", 1)
    return f"{hour:0>2}:{minutes_and_seconds}"


def _year_fields(groups: Groups) -> dict[str, Any]:
    """The year, or the months counted back; the name of a month alone is one of this year."""
    if "back" in groups:
        return {"months_back": _count_back(groups["back"])}
    if "year" not in groups and "name" not in groups:
        return {}
    if "year" not in groups:
        return {"years_back": 0}
    if groups["year"].isdecimal():
        return {"year": int(groups["year"])}
    return {"years_back": _count_back(groups["year"])}


def _count_back(text: str) -> int:
    if "before last" in text:
        return 2
    if re.search(r"\b(?:this|current|present|ongoing)\b", text):
        return 0
    return 1


def _length_fields(groups: Groups) -> dict[str, Any]:
    unit = _length_unit(groups["unit"])
    if groups["count"] != "half a":
        count = _length_count(groups["count"])
        return {"ago": Ago(count=count, unit=unit)}
    if unit == "year":
        return {"ago": Ago(count=6, unit="month")}
    return {"ago": Ago(count=15, unit="day")}


def _length_unit(text: str) -> Unit:
    return next(unit for prefix, unit in _UNIT_OF_PREFIX.items() if text.startswith(prefix))


def _length_count(text: str) -> int:
    if text.isdecimal():
        return int(text)
    if text in _NUMBERS:
        return _NUMBERS.index(text) + 1
    if "couple" in text:
        return 2
    if "few" in text:
        return 3
    return 1
