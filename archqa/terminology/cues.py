"""Cues: words that say how a statement holds, what was done with a drug, what is still to be done.

The cues of denial, doubt and time follow NegEx (Chapman et al. 2001) and ConText (Harkema et al. 2009).
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from archqa.core.tables import read_rows, split_cell
from archqa.terminology.matching import (
    LetterMatcher,
    Match,
    Reading,
    compile_forms,
    expand,
)

_TABLE = "terminology/data/cues.tsv"
_ASSERTION = "assertion"
_RESULT = "result"
_QUERY = re.compile(r"(?<!\w)\?(?= ?[A-Za-z])")

_PLACES = {
    "begins": r"^\W*(?:{})\b",
    "holds": r"\b(?:{})\b",
    "is": r"^\W*(?:{})\W*$",
    "ends": r"\b(?:{})\W*$",
}
"""Where a result in words has a cue."""


class Cue(NamedTuple):
    """What a cue asserts; `reaches_after` over what follows it, else over what precedes it."""

    kind: str
    reaches_after: bool


def find_assertion_cues(sentence: str) -> tuple[Match[Cue], ...]:
    """Return the cues of a sentence that say how what it mentions holds; `?PE` is in doubt."""
    queries = []
    for match in _QUERY.finditer(sentence):
        queries.append(
            Match(match.start(), match.end(), Cue("open", reaches_after=True))
        )
    return (*_assertion_matcher().find(sentence), *queries)


@cache
def cue_pattern(group: str, name: str) -> re.Pattern[str]:
    """Return the pattern of one row of `cues.tsv`.

    Raises:
        KeyError: The table has no such row.
    """
    for row_group, row_name, reading, forms in read_rows(_TABLE, 4):
        if (row_group, row_name) == (group, name):
            return compile_forms(expand(forms), Reading(reading))
    raise KeyError((group, name))


@cache
def names_by_code(group: str) -> Mapping[str, str]:
    """Return what the codes of a group mean, by code: `BID` is `twice a day`."""
    names = {}
    for row_group, name, _, codes in read_rows(_TABLE, 4):
        if row_group == group:
            names.update(dict.fromkeys(split_cell(codes), name))
    return names


@cache
def result_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return what results in words assert, by patterns of which the first that fits decides."""
    patterns = []
    for group, assertion, place, forms in read_rows(_TABLE, 4):
        if group == _RESULT:
            alternatives = "|".join(map(re.escape, split_cell(forms)))
            pattern = re.compile(_PLACES[place].format(alternatives), re.IGNORECASE)
            patterns.append((assertion, pattern))
    return tuple(patterns)


@cache
def _assertion_matcher() -> LetterMatcher[Cue]:
    matcher: LetterMatcher[Cue] = LetterMatcher(Reading.SENTENCE)
    for group, kind, place, forms in read_rows(_TABLE, 4):
        if group == _ASSERTION:
            matcher.add(Cue(kind, reaches_after=place == "after"), expand(forms))
    return matcher
