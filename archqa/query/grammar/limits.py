"""Limits on rows beside names and times: values ("greater than 105"), routes ("via the IV route")."""

import re
from typing import Literal, NamedTuple

from archqa.query.grammar.text import MaskedText, lookup_key
from archqa.query.grammar.vocabulary import synonyms
from archqa.query.model import ValueTest

_NUMBER = (
    r"(?:a |the |value of |of )*(?P<number>-?\d+(?:\.\d+)?)(?![\d/-])(?!:\d|st\b|nd\b|rd\b|th\b)"
)
_UNIT = (
    r"(?:\s?(?:%|percent|bpm|mm ?hg|degrees?(?: (?:celsius|c|f))?|celsius|kgs?|kilograms?|mg/dl|g/dl|meq/l|mmol/l|mls?|"
    r"cc|breaths(?: per minute)?|beats(?: per minute)?|/min)(?![a-z]))?"
)
_NOT_TIME = r"(?! (?:minute|hour|day|week|month|year|time)s?\b)"
Comparison = Literal["greater", "less", "at_least", "at_most", "equal"]
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
_PATTERNS = [
    *(
        (comparison, re.compile(rf"(?<![\w])(?:(?:is|was|were) )?{_NUMBER}{_UNIT} {words}\b"))
        for comparison, words in _AFTER.items()
    ),
    *(
        (comparison, re.compile(rf"(?<![\w])(?:{words}) ?{_NUMBER}{_UNIT}{_NOT_TIME}"))
        for comparison, words in _TESTS.items()
    ),
]


class FoundValueTest(NamedTuple):
    """A value test and where its words stand."""

    test: ValueTest
    start: int
    end: int


def find_value_test(sentence: MaskedText) -> FoundValueTest | None:
    """The number that values are held against, if one is named. Claims its words."""
    for comparison, pattern in _PATTERNS:
        for match in sentence.find(pattern):
            sentence.mask(*match.span())
            return FoundValueTest(
                ValueTest(comparison=comparison, number=float(match["number"])), *match.span()
            )
    return None


_CODES = {each.said: each.names for each in synonyms() if each.kind == "route"}
_SAID = sorted(_CODES, key=len, reverse=True)
# These are routes by themselves; shorter codes only beside "via", "through" or "route".
_CLEAR = [
    said
    for said in _SAID
    if said in {"iv", "po", "im", "sc"} or (len(said) > 4 and said not in {"left ear"})
]
_VIA = r"(?:via|through|by way of|by means of|by|using|with|per|over)(?: (?:the|a|an))?"
_ROUTE_WORD = r"(?:routes?(?: of administration)?|administration route|administration)"
_ANY_SIGN = {said: r"[ ./-]*".join(map(re.escape, said.split())) for said in _SAID}
_LISTED = "|".join(_ANY_SIGN[said] for said in _SAID)
_DRUGS = r"(?:meds?|medications?|drugs?|doses?|antibiotics?|fluids?|medicines?|orders?)"
_LITERAL = r"(?P<literal>(?!which|what|any|this|that|same|each)[a-z/.-]+(?: [a-z/.-]+)?)"
_ROUTES = [
    re.compile(rf"(?<![a-z\d])(?:{_VIA} )?(?P<route>{_LISTED})\.? {_ROUTE_WORD}(?![a-z])"),
    re.compile(rf"(?<![a-z\d]){_VIA} (?:{_ROUTE_WORD} )?(?P<route>{_LISTED})(?![a-z\d])"),
    re.compile(rf"(?<![a-z\d])(?P<route>{_LISTED})(?= {_DRUGS}\b)"),
    re.compile(
        rf"(?<![a-z\d])routes? (?:of |being |was |is |= ?|: ?)?['\"]?(?P<route>{_LISTED})(?![a-z\d])['\"]?"
    ),
    re.compile(rf"(?<![a-z\d]){_VIA} {_LITERAL} {_ROUTE_WORD}(?![a-z])"),
    re.compile(
        rf"(?<![a-z\d])(?P<route>{'|'.join(_ANY_SIGN[said] for said in _CLEAR)})(?![a-z\d])"
    ),
]


def route_codes(word: str) -> tuple[str, ...]:
    """The codes that a word for a route stands for; none if it is no such word."""
    return _CODES.get(word, ())


def find_routes(sentence: MaskedText) -> tuple[str, ...]:
    """The codes of the routes that are named. Claims their words."""
    found: list[str] = []
    for pattern in _ROUTES:
        for match in sentence.find(pattern):
            sentence.mask(*match.span())
            said = match.groupdict().get("route")
            found += _CODES[lookup_key(said)] if said else [match["literal"].upper()]
    return tuple(dict.fromkeys(found))
