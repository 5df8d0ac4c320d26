"""Limits on values ("greater than 105") and routes ("via the IV route")."""

import re
from typing import Literal

from archqa.query.model import ValueTest
from archqa.query.questions.ehrsql.names import synonyms
from archqa.query.questions.ehrsql.text import MaskedText, lookup_key

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


def find_value_test(question: MaskedText) -> ValueTest | None:
    """The comparison of values with a number, if there is one. Masks its words."""
    for comparison, pattern in _PATTERNS:
        match = next(question.find_unmasked(pattern), None)
        if match is not None:
            question.mask(*match.span())
            return ValueTest(comparison=comparison, number=float(match["number"]))
    return None


_CODES = {synonym.phrase: synonym.names for synonym in synonyms() if synonym.kind == "route"}
_PHRASES = sorted(_CODES, key=len, reverse=True)
# These are routes by themselves; shorter codes only next to "via", "through" or "route".
_CLEAR = [
    phrase
    for phrase in _PHRASES
    if phrase in {"iv", "po", "im", "sc"} or (len(phrase) > 4 and phrase != "left ear")
]
_VIA = r"(?:via|through|by way of|by means of|by|using|with|per|over)(?: (?:the|a|an))?"
_ROUTE_WORD = r"(?:routes?(?: of administration)?|administration route|administration)"
_PHRASE_PATTERN = {phrase: r"[ ./-]*".join(map(re.escape, phrase.split())) for phrase in _PHRASES}
_LISTED = "|".join(_PHRASE_PATTERN[phrase] for phrase in _PHRASES)
_CLEAR_LISTED = "|".join(_PHRASE_PATTERN[phrase] for phrase in _CLEAR)
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
