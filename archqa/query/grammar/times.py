"""Time in words → spans: dates in many forms, since and before, this and last year, days ago."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from archqa.query.grammar.text import MaskedText
from archqa.query.scope import Ago, Span

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


class FoundSpan(NamedTuple):
    """A span and where its words stand."""

    span: Span
    start: int
    end: int


def find_spans(sentence: MaskedText) -> list[FoundSpan]:
    """The spans of time a question names, in the order of its words. Claims their words."""
    found = [*_search(sentence, _DATES, _date), *_search(sentence, _LENGTHS, _length)]
    found += list(_search(sentence, [_BARE_MONTH], _date))
    found = _closed(sentence, sorted(found, key=lambda each: each.start))
    for match in sentence.find(_SO_FAR):
        sentence.mask(*match.span())
    return found


def _closed(sentence: MaskedText, found: list[FoundSpan]) -> list[FoundSpan]:
    """Between A and B: until B."""
    for at, (one, two) in enumerate(pairwise(found)):
        joined = sentence.open[one.end : two.start].strip()
        if one.span.relation == "since" and joined == "and" and two.span.relation == "in":
            sentence.mask(one.end, two.start)
            found[at + 1] = two._replace(span=two.span.model_copy(update={"relation": "until"}))
    return found


def _search(
    sentence: MaskedText, patterns: list[str], read: Callable[[dict[str, str]], dict[str, Any]]
) -> Iterator[FoundSpan]:
    for pattern in patterns:
        for match in sentence.find(_compiled(pattern)):
            text, start = sentence.open, match.start()
            if _IS_AMOUNT.search(text[:start]) and match.group().isdecimal():
                continue
            said = {name: value for name, value in match.groupdict().items() if value is not None}
            relation, begin = _relation(text, start)
            end = match.end()
            after = _ONWARDS.match(text[end:])
            if after:
                relation, end = "since", end + after.end()
            if relation == "none":
                relation = "since" if _is_stretch(said, match.group()) else "in"
            span = _span(relation, said, read)
            if span is not None:
                sentence.mask(begin, end)
                yield FoundSpan(span, begin, end)


def _compiled(pattern: str, kept: dict[str, re.Pattern[str]] = {}) -> re.Pattern[str]:  # noqa: B006
    if pattern not in kept:
        kept[pattern] = re.compile(rf"(?<![a-z\d])(?:{pattern})(?![\da-z])")
    return kept[pattern]


def _span(
    relation: Relation, said: dict[str, str], read: Callable[[dict[str, str]], dict[str, Any]]
) -> Span | None:
    fields = read(said)
    if not fields:
        return None
    if relation == "in" and "ago" in fields:
        relation, fields = _on(fields["ago"])
    try:
        return Span(relation=relation, **fields)
    except ValueError:
        return None


def _on(ago: Ago) -> tuple[Relation, dict[str, Any]]:
    """Three days ago: that day."""
    if ago.unit in {"day", "month", "year"}:
        return "in", {f"{ago.unit}s_back": ago.count}
    return "since", {"ago": ago}


def _is_stretch(said: dict[str, str], text: str) -> bool:
    """Whether a length counts from then until now ("in the last 3 days"), not as a date ("3 days ago")."""
    return "unit" in said and not text.endswith(("ago", "back", "before now", "earlier"))


def _relation(text: str, start: int) -> tuple[Relation | Literal["none"], int]:
    """The word before a date that says how it is meant, and where that word begins."""
    before = text[:start].rstrip(" ,(")
    for relation, pattern in _RELATIONS.items():
        found = re.search(
            rf"\b(?:{pattern})(?: the)?(?: year| month| date| day| time)?(?: of)?$", before
        )
        if found:
            return ("none" if relation == "in" else relation), found.start()
    return "none", start


def _date(said: dict[str, str]) -> dict[str, Any]:
    if "today" in said:
        return {"days_back": 0}
    if "yesterday" in said:
        return {"days_back": 2 if "before" in said["yesterday"] else 1}
    if "before_last" in said:
        return {"months_back": 2}
    fields: dict[str, Any] = {
        **_year(said),
        **{part: int(said[part]) for part in ("month", "day") if part in said},
    }
    if "name" in said:
        fields["month"] = _MONTHS.index(said["name"][:3]) + 1
    if "clock" in said:
        fields["clock"] = said["clock"].zfill(8 if said["clock"].count(":") == 2 else 5)
    return fields


def _year(said: dict[str, str]) -> dict[str, Any]:
    """The year, or the month counted back from the clock's; a month's name alone is one of this year."""
    if "back" in said:
        return {"months_back": _is_last(said["back"])}
    if "year" in said:
        return (
            {"year": int(said["year"])}
            if said["year"].isdecimal()
            else {"years_back": _is_last(said["year"])}
        )
    return {"years_back": 0} if "name" in said else {}


def _is_last(text: str) -> int:
    if "before last" in text:
        return 2
    return 0 if re.search(r"\b(?:this|current|present|ongoing)\b", text) else 1


def _length(said: dict[str, str]) -> dict[str, Any]:
    unit = next(full for short, full in _UNITS.items() if said["unit"].startswith(short))
    count = _count(said["count"])
    if said["count"] == "half a":
        unit, count = ("month", 6) if unit == "year" else ("day", 15)
    return {"ago": Ago(count=count, unit=unit)}


_UNITS: dict[str, Any] = {
    "mi": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
    "m": "month",
    "y": "year",
}


def _count(text: str) -> int:
    if text.isdecimal():
        return int(text)
    if text in _NUMBERS:
        return _NUMBERS.index(text) + 1
    return 2 if "couple" in text else 3 if "few" in text else 1
