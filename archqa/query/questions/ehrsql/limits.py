"""What limits the rows: spans of time, visits, positions, values ("greater than 105"), routes.

An ordinal next to a word for a visit belongs to the visit ("on the first ICU stay"); any other is a
position among the rows.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from archqa.query.model import ValueTest
from archqa.query.questions.calendar import (
    DAY,
    MONTH,
    MONTH_NUMBER,
    NUMBER,
    FoundSpan,
    Groups,
    Relation,
    groups_of,
    make_span,
    read_date,
    read_length,
    relation_before,
)
from archqa.query.questions.ehrsql.names import synonyms
from archqa.query.questions.ehrsql.text import MaskedText
from archqa.query.questions.lexer import lookup_key
from archqa.query.scope import Position, Visit, VisitKind
from archqa.query.values import Comparison
from archqa.terminology.cues import names_by_code

_COUNT = rf"(?P<count>\d+|an?|{NUMBER}|(?:a )?couple(?: of)?|(?:a )?few|half a)"
_UNIT = (
    r"(?P<unit>minutes?|mins?|hours?|hrs?|h|days?|weeks?|wks?|months?|mths?|mos?|years?|yrs?)"
    r"(?:'s?)?(?: time)?(?![a-z])"
)
_LAST = r"(?:last|previous|prior)"
_THIS = r"(?:this|(?:the )?(?:current|present|ongoing))"
_YEAR = (
    r"(?P<year>(?:1[89]|2\d)\d\d(?!\d|[.:,]\d)|"
    rf"(?:of )?(?:{_THIS}|(?:the )?{_LAST}|the year before) ?(?:calendar )?years?\b"
    r"|(?:the )?year before last)(?:'s)?"
)
_OF = r"(?:,? ?(?:of|in|/|-|,)? ?)"
_TIME = r"(?:(?:,? at |[ t]|, ?)(?P<clock>[0-2]?\d:\d\d(?::\d\d)?)(?:\.0+)?(?: ?hrs| ?hours|z)?)?"
_BACK = rf"(?P<back>{_THIS}|(?:the )?{_LAST}) ?(?P<period>month)s?\b(?:'s)?"

# In the order of trust: what is longer and clearer comes first.
_DATES = [
    rf"(?P<year>(?:1[89]|2\d)\d\d)[-/.]{MONTH_NUMBER}[-/.]{DAY}{_TIME}",
    r"(?P<clock>[0-2]?\d:\d\d(?::\d\d)?)(?: ?hrs| ?hours)? (?:on )?"
    rf"(?P<year>(?:1[89]|2\d)\d\d)[-/.]{MONTH_NUMBER}[-/.]{DAY}",
    rf"(?<![\d/]){MONTH_NUMBER}[-/.]{DAY}(?:[-/.]|,? )(?:of )?{_YEAR}{_TIME}",
    rf"(?:the )?(?<!\d){DAY}{_OF}{MONTH}{_OF}{_YEAR}{_TIME}",
    rf"{MONTH} (?:the )?{DAY}{_OF}{_YEAR}{_TIME}",
    rf"{_BACK}(?: ?/ ?|,? on (?:the |day )?|,? (?:the |day ))(?<!\d){DAY}",
    rf"(?:the |day )?(?<!\d){DAY}(?: day)?(?: of| in)? {_BACK}",
    rf"(?<![\d/.]){MONTH_NUMBER} ?[-/] ?{_YEAR}(?![/-]\d)",
    rf"(?P<year>(?:1[89]|2\d)\d\d)[-/]{MONTH_NUMBER}(?![\d/-])",
    rf"{MONTH}{_OF}{_YEAR}",
    rf"{_YEAR},? (?:in )?{MONTH}",
    rf"(?P<today>today|tonight|{_THIS} day)|(?P<yesterday>(?:the )?day before yesterday|"
    r"yesterday|(?:the )?(?:previous|last|prior) day)",
    _BACK,
    r"(?P<back>(?:the )?(?P<period>month) before last)",
    _YEAR,
]
_LENGTHS = [
    rf"(?:the )?(?:time )?{_COUNT} (?:full )?{_UNIT} (?:ago|back|before now|earlier|prior)",
    rf"(?:the )?(?:{_LAST}|past|preceding|recent|trailing|most recent) {_COUNT} ?(?:full )?{_UNIT}",
    rf"(?:the )?(?:past|preceding) (?P<count>){_UNIT}",
    rf"(?:(?<=\bin )|(?<=\bover )|(?<=\bwithin )|(?<=\bfor ))(?:the )?{_COUNT} ?{_UNIT}",
    r"(?:the )?(?P<count>)(?:last|previous) (?P<unit>week|hour)\b",
]
_BARE_MONTH = rf"(?:(?<=\bin )|(?<=\bsince )|(?<=\bduring )|(?<=\bthroughout ))(?:the month of )?{MONTH}"
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


FieldReader = Callable[[Groups], dict[str, Any]]
"""Turns the groups of a match into fields of a span."""


def find_spans(question: MaskedText) -> list[FoundSpan]:
    """The spans of time in a question, in text order. Masks their words."""
    spans = [
        *_search(question, _DATES, _date_fields),
        *_search(question, _LENGTHS, _length_fields),
        *_search(question, [_BARE_MONTH], _date_fields),
    ]
    spans.sort(key=lambda found_span: found_span.start)
    resolved = spans[:1]
    for previous, current in pairwise(spans):
        gap = question.masked[previous.end : current.start].strip()
        (first,), (last,) = previous.spans, current.spans
        if first.relation == "since" and gap == "and" and last.relation == "in":
            # Between A and B: since A, until B.
            question.mask(previous.end, current.start)
            last = last.model_copy(update={"relation": "until"})
        resolved.append(current._replace(spans=(last,)))
    for match in question.find_unmasked(_SO_FAR):
        question.mask(*match.span())
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


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z\d])(?:{pattern})(?![\da-z])")


def _read_span(
    text: str, match: re.Match[str], read_fields: FieldReader
) -> FoundSpan | None:
    start, end = match.span()
    if _IS_AMOUNT.search(text[:start]) and match.group().isdecimal():
        return None
    groups = groups_of(match)
    relation, start = relation_before(text, start, _RELATION_PATTERNS, skipped=" ,(")
    onwards = _ONWARDS.match(text[end:])
    is_ago = match.group().endswith(("ago", "back", "before now", "earlier"))
    if onwards:
        relation, end = "since", end + onwards.end()
    elif relation == "in" and "unit" in groups and not is_ago:
        # "In the last 3 days" reaches until now.
        relation = "since"
    fields = read_fields(groups)
    if relation == "in" and "ago" in fields:
        ago = fields["ago"]
        if ago.unit in {"day", "month", "year"}:
            # Three days ago: that day.
            fields = {f"{ago.unit}s_back": ago.count}
        else:
            relation = "since"
    span = make_span(relation, fields)
    if span is None:
        return None
    return FoundSpan((span,), start, end)


_RELATION_PATTERNS: dict[Relation, re.Pattern[str]] = {
    relation: re.compile(
        rf"\b(?:{pattern})(?: the)?(?: year| month| date| day| time)?(?: of)?$"
    )
    for relation, pattern in _RELATIONS.items()
}


def _date_fields(groups: Groups) -> dict[str, Any]:
    fields = read_date(groups)
    if "name" in groups and "year" not in groups:
        # The name of a month alone is one of this year.
        fields["years_back"] = 0
    return fields


def _length_fields(groups: Groups) -> dict[str, Any]:
    return {"ago": read_length(groups)}


_ORDINALS: dict[str, str] = {
    "third_to_last": r"third[- ](?:to|from)?[- ]?(?:the )?last|antepenultimate",
    "second_to_last": r"(?:second|2nd|next|one)[- ](?:to|from|before)[- ](?:the )?last|second[- ]last|penultimate|"
    r"last but one|next-to-last|one before (?:the )?last|(?:second|2nd)[- ]most[- ]recent",
    "second": r"second|2nd",
    "third": r"third|3rd",
    "last": r"last|latest|most recently|most recent|recent|final|newest|previous|prior|closing",
    "first": r"(?:very )?(?:first|1st|earliest|initial|oldest|original)",
    "current": r"this|current|currently|ongoing|present|active",
}
_ORDINAL = "|".join(f"(?P<{name}>{words})" for name, words in _ORDINALS.items())
_ICU = r"(?:icu|intensive[- ]care(?: unit)?|critical[- ]care(?: unit)?|itu)"
_HOSPITAL = r"(?:in-?patient|in-?hospital|hospital|hosp|hospitals)"
_WARD = rf"(?:{_ICU}|{_HOSPITAL})"
_STAY = (
    r"(?:visits?|stays?|encounters?|enc|admissions?|adm|admits?|hospitali[sz]ations?|hosp|trips?|episodes?|"
    r"attendance|in-?patient|hospital courses?|courses?)"
)
_WHOSE = r"(?:(?:the|their|his|her|its|this|that|a|an|patient|entire|whole) ){0,6}"
_IN = r"(?:(?:in|on|during|at|for|within|of|over|throughout|from|across|while|upon|when|with) )?"
_PRONOUN = r"(?:(?:he|she|they|patient|the patient) )?(?:(?:was|were|is|got|being|been|had been) )?"
_FORMS = [
    rf"{_IN}{_WHOSE}(?:time of )?(?P<before_last>)(?:{_WARD} )?{_STAY} before (?:the )?last",
    rf"{_IN}{_WHOSE}(?:{_ORDINAL}),? (?:{_WARD} )?(?:admission )?{_STAY}(?: (?:to|in|at|on|into) (?:the )?{_WARD})?",
    rf"{_IN}{_WHOSE}{_WARD} {_STAY} (?:number |no\.? |#)?(?P<number>[123])\b",
    rf"{_IN}{_WHOSE}{_WARD} (?:{_ORDINAL}) {_STAY}",
    rf"{_IN}{_WHOSE}(?:{_ORDINAL}) (?:time )?{_PRONOUN}(?:in|at|on|inside|stayed in|stayed at|admitted to|were in) "
    rf"(?:the )?{_WARD}",
    rf"{_IN}{_WHOSE}(?:{_ORDINAL}) (?:{_WARD})(?= |$|[?.,])",
    rf"(?:when|while|during|the time|time) (?:the )?{_PRONOUN}(?:{_ORDINAL}) "
    rf"(?:hospitali[sz]ed|in-?patient|admitted to the {_WARD}|in (?:the )?{_WARD})",
    r"(?:while|when|since being) (?:currently )?(?:in-?patient|in hospital|in the hospital|hospitali[sz]ed)"
    r"(?P<current> now| currently| at present)",
]
_EXPLICIT = re.compile(
    rf"\b(?:{_WARD}|admission|adm|admit|hospitali[sz]ation|hosp|encounter)\b"
)
_IN_ICU = re.compile(rf"\b{_ICU}\b")
_PATTERNS = [re.compile(rf"(?<![a-z\d])(?:{form})(?![a-z\d])") for form in _FORMS]
_TIMES = r"(?: (?:ever|time|occasion|instance|one|occurrence|ones))?"
_POSITION = re.compile(
    rf"(?<![a-z\d])(?:(?:for|on|at|from) )?(?:the )?"
    rf"(?:(?P<ordinal>{_ORDINAL})|(?P<adverb>firstly|lastly|initially|recently|at first))(?P<times>{_TIMES})(?![a-z\d])"
)
_ADVERBS = names_by_code("ordinal adverb")


class FoundVisit(NamedTuple):
    """A visit and the offsets of its words.

    is_explicit: whether the words say where it was, or that it was an admission.
    """

    visit: Visit
    start: int
    end: int
    is_explicit: bool = True

    def as_icu_stay(self) -> "FoundVisit":
        """The same visit, known to be an ICU stay."""
        icu_stay = self.visit.model_copy(update={"kind": "icu"})
        return self._replace(visit=icu_stay, is_explicit=True)


class FoundPosition(NamedTuple):
    """A position and the offsets of its words."""

    position: Position
    start: int
    end: int


def find_visits(question: MaskedText) -> list[FoundVisit]:
    """The visits in a question, in text order. Masks their words."""
    visits = []
    for pattern in _PATTERNS:
        for match in question.find_unmasked(pattern):
            question.mask(*match.span())
            groups = match.groupdict()
            if groups.get("before_last") is not None:
                which: Any = "second_to_last"
            elif groups.get("number"):
                which = ("first", "second", "third")[int(groups["number"]) - 1]
            else:
                which = _ordinal(match)
            kind: VisitKind = "icu" if _IN_ICU.search(match.group()) else "hospital"
            visit = Visit(kind=kind, which=which)
            is_explicit = bool(_EXPLICIT.search(match.group()))
            visits.append(FoundVisit(visit, *match.span(), is_explicit))
    return sorted(visits, key=lambda found_visit: found_visit.start)


def find_positions(question: MaskedText) -> list[FoundPosition]:
    """The remaining ordinals, in text order. Masks them."""
    positions = []
    for match in question.find_unmasked(_POSITION):
        adverb = match["adverb"]
        which: Any = _ADVERBS[adverb] if adverb else _ordinal(match)
        if which != "current":
            question.mask(*match.span())
            positions.append(FoundPosition(which, *match.span()))
    return positions


def _ordinal(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return next(name for name in _ORDINALS if groups.get(name))


_NUMBER = r"(?:a |the |value of |of ){0,6}(?P<number>-?\d+(?:\.\d+)?)(?![\d/-])(?!:\d|st\b|nd\b|rd\b|th\b)"
_VALUE_UNIT = (
    r"(?:\s?(?:%|percent|bpm|mm ?hg|degrees?(?: (?:celsius|c|f))?|celsius|kgs?|kilograms?|mg/dl|g/dl|meq/l|mmol/l|mls?|"
    r"cc|breaths(?: per minute)?|beats(?: per minute)?|/min)(?![a-z]))?"
)
_NOT_TIME = r"(?! (?:minute|hour|day|week|month|year|time)s?\b)"
_TESTS: dict[Comparison, str] = {
    "at_least": r"at least|>=|≥|no (?:less|lower) than|not (?:less|lower|below) than|greater than or equal to|"
    r"minimum of",
    "at_most": r"at most|<=|≤|no (?:more|greater|higher) than|less than or equal to|up to",
    "greater": r"(?:value )?greater(?= -?\d)|"
    r"(?:greater|higher|more|larger|bigger|faster|exceeding|above|over|heavier) than|"
    r"above|over|exceed(?:s|ed|ing)?|>|beyond|surpass(?:es|ed|ing)?|in excess of|upwards of|topped|topping|north of",
    "less": r"(?:value )?less(?= -?\d)|(?:less|lower|smaller|fewer|slower|below|under|lighter) than|"
    r"below|under|beneath|<|south of|dipped to under",
    "equal": r"equal to|exactly|equals|=",
}
_AFTER: dict[Comparison, str] = {
    "at_least": r"or (?:more|higher|greater|above|over)",
    "at_most": r"or (?:less|lower|below|under|fewer)",
}
_TEST_PATTERNS = [
    *(
        (
            comparison,
            re.compile(
                rf"(?<![\w])(?:(?:is|was|were) )?{_NUMBER}{_VALUE_UNIT} {words}\b"
            ),
        )
        for comparison, words in _AFTER.items()
    ),
    *(
        (
            comparison,
            re.compile(rf"(?<![\w])(?:{words}) ?{_NUMBER}{_VALUE_UNIT}{_NOT_TIME}"),
        )
        for comparison, words in _TESTS.items()
    ),
]


def find_value_test(question: MaskedText) -> ValueTest | None:
    """The comparison of values with a number, if there is one. Masks its words."""
    for comparison, pattern in _TEST_PATTERNS:
        match = next(question.find_unmasked(pattern), None)
        if match is not None:
            question.mask(*match.span())
            return ValueTest(comparison=comparison, number=float(match["number"]))
    return None


_CODES = {
    synonym.phrase: synonym.names for synonym in synonyms() if synonym.kind == "route"
}
_PHRASES = sorted(_CODES, key=len, reverse=True)
# These are routes by themselves; shorter codes only next to "via", "through" or "route".
_CLEAR = [
    phrase
    for phrase in _PHRASES
    if phrase in {"iv", "po", "im", "sc"} or (len(phrase) > 4 and phrase != "left ear")
]
_VIA = r"(?:via|through|by way of|by means of|by|using|with|per|over)(?: (?:the|a|an))?"
_ROUTE_WORD = r"(?:routes?(?: of administration)?|administration route|administration)"
_PHRASE_PATTERN = {
    phrase: r"[ ./-]*".join(map(re.escape, phrase.split())) for phrase in _PHRASES
}
_LISTED = "|".join(_PHRASE_PATTERN[phrase] for phrase in _PHRASES)
_CLEAR_LISTED = "|".join(_PHRASE_PATTERN[phrase] for phrase in _CLEAR)
_DRUGS = r"(?:meds?|medications?|drugs?|doses?|antibiotics?|fluids?|medicines?|orders?)"
_LITERAL = (
    r"(?P<literal>(?!which|what|any|this|that|same|each)[a-z/.-]+(?: [a-z/.-]+)?)"
)
_ROUTES = [
    re.compile(
        rf"(?<![a-z\d])(?:{_VIA} )?(?P<route>{_LISTED})\.? {_ROUTE_WORD}(?![a-z])"
    ),
    re.compile(
        rf"(?<![a-z\d]){_VIA} (?:{_ROUTE_WORD} )?(?P<route>{_LISTED})(?![a-z\d])"
    ),
    re.compile(rf"(?<![a-z\d])(?P<route>{_LISTED})(?= {_DRUGS}\b)"),
    re.compile(
        rf"(?<![a-z\d])routes? (?:of |being |was |is |= ?|: ?)?['\"]?(?P<route>{_LISTED})(?![a-z\d])['\"]?"
    ),
    re.compile(rf"(?<![a-z\d]){_VIA} {_LITERAL} {_ROUTE_WORD}(?![a-z])"),
    re.compile(rf"(?<![a-z\d])(?P<route>{_CLEAR_LISTED})(?![a-z\d])"),
]


def route_codes(word: str) -> tuple[str, ...]:
    """The codes of a word for a route; none if it is no such word."""
    return _CODES.get(word, ())


def find_routes(question: MaskedText) -> tuple[str, ...]:
    """The codes of the routes in a question. Masks their words."""
    codes: list[str] = []
    for pattern in _ROUTES:
        for match in question.find_unmasked(pattern):
            question.mask(*match.span())
            groups = match.groupdict()
            if groups.get("route"):
                codes += _CODES[lookup_key(groups["route"])]
            else:
                codes.append(groups["literal"].upper())
    return tuple(dict.fromkeys(codes))
