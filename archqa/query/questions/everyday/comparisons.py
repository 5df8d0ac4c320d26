"""Comparisons of a value with a number: above 140, at least 7 %, < 60."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple

from archqa.query.model import ValueTest

Comparison = Literal["greater", "less", "at_least", "at_most", "equal"]

_WORDS: dict[Comparison, str] = {
    "at_least": r"at least|>=|≥|no less than|not less than",
    "at_most": r"at most|<=|≤|no more than|not more than|not above|not over",
    "greater": r"above|over|greater than|more than|higher than|exceed(?:s|ed|ing)?|>|past",
    "less": r"below|under|less than|lower than|fewer than|<",
    "equal": r"equal to|exactly|=",
}
_AFTER: dict[Comparison, str] = {
    "at_least": r"or (?:higher|more|above|greater|over)|and (?:above|over|higher)|\+",
    "at_most": r"or (?:lower|less|below|under|fewer)|and (?:below|under|lower)",
}
_NUMBER = r"(?P<number>\d+(?:\.\d+)?)"
_PERCENT = r"(?: ?(?P<percent>%|percent))?"
_NO_DATE = r"(?![\d/-]|\.\d)"


class FoundTest(NamedTuple):
    """A comparison and the offsets of its words; a unit after them is not included."""

    test: ValueTest
    start: int
    end: int
    unit: str


def find_tests(text: str) -> Iterator[FoundTest]:
    """The comparisons of a plain text in lower case."""
    for comparison, words in _WORDS.items():
        for match in _before(words).finditer(text):
            yield _found(comparison, match)
    for comparison, words in _AFTER.items():
        for match in _after(words).finditer(text):
            yield _found(comparison, match)


def _found(comparison: Comparison, match: re.Match[str]) -> FoundTest:
    test = ValueTest(comparison=comparison, number=float(match["number"]))
    unit = "%" if match["percent"] else ""
    return FoundTest(test, match.start(), match.end(), unit)


@cache
def _before(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z<>=])(?:{words}) ?{_NUMBER}{_PERCENT}{_NO_DATE}")


@cache
def _after(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\d/.-]){_NUMBER}{_PERCENT} ?(?:{words})(?![a-z])")
