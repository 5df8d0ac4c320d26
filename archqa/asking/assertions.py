"""Whether a sentence affirms or denies what it mentions, or leaves it open.

In the manner of NegEx (Chapman et al. 2001) and ConText (Harkema et al. 2009): cues such as
"denies", "ruled out" and "possible" reach over what follows or precedes them, up to a boundary
such as "but"; the cue nearest to a mention decides.
"""

import re
from enum import StrEnum
from typing import NamedTuple

from archqa.terminology.cues import find_assertion_cues

MAX_WORDS_BACK = 8
"""Words between a mention and a cue that follows it ("pneumonia has now been ruled out")."""
_CLAUSE_END = re.compile(
    r"[;!?]|\.(?=\s|$)|,\s+(?:and\s+)?(?=(?:he|she|it|they|we|i|the patient|patient|with|has|had|is"
    r"|was|normal|positive|some|mild|moderate|severe|good|intact|still|now|occasional"
    r"|as well as|shows?|showed|but)\b)|,\s+(?=\+)",
    re.IGNORECASE,
)
_RELATIVE_CLAUSE = re.compile(
    r"[^,.;]{0,20},?\s*(?:which|that|but (?:this|that|it|these))"
    r" (?:has|have|was|were|is|are|had)[^,.;]*$",
    re.IGNORECASE,
)
_REPORTS = re.compile(
    r"(?:'s)?\s+(?:also |further |has |had |did |does |who |who is |is concerned |now )?"
    r"(?:stat|say|said|report|not|den(?:y|ies)|think|thought|feel|felt|describ|bring|brought|gave|giv"
    r"|tells|told|believe|claim|complain|observ|saw|seen|noticed|relate|mention|confirm|help|accompan"
    r"|request|with|and \w+ (?:stat|report|den))\w*\b",
    re.IGNORECASE,
)


class Assertion(StrEnum):
    """What a sentence says of something that it mentions."""

    PRESENT = "present"
    ABSENT = "absent"
    NEGATIVE = "negative"
    """A test, culture or finding that is called negative: the test itself was done."""
    OPEN = "open"
    LIKELY = "likely"
    LIMITED = "limited"
    """Affirmed or denied with an exception ("with stairs only")."""
    ENDED = "ended"
    FAMILY = "family"
    PAST = "past"
    PLANNED = "planned"
    ALLOWED = "allowed"
    CONTINUES = "continues"


class Cue(NamedTuple):
    """Characters that state an assertion; `reaches_after` over what follows, else what precedes."""

    kind: str
    reaches_after: bool
    start: int
    end: int


def assertions(sentence: str, start: int, end: int) -> frozenset[Assertion]:
    """Return what `sentence` says of the characters from `start` to `end`, PRESENT without a cue."""
    cues = find_cues(sentence)
    boundaries = _boundaries(sentence, cues)
    found = []
    for cue in cues:
        if cue.kind != "boundary" and _reaches(cue, start, end, sentence, boundaries):
            found.append(Assertion(cue.kind))
    return frozenset(found) or frozenset({Assertion.PRESENT})


def find_cues(sentence: str) -> tuple[Cue, ...]:
    """Return the cues of a sentence in order; the longer of two that overlap wins."""
    matches: list[Cue] = []
    for start, end, (kind, reaches_after) in find_assertion_cues(sentence):
        matches.append(Cue(kind, reaches_after, start, end))
    matches.sort(key=lambda cue: (cue.start - cue.end, cue.start, cue.kind != "open"))
    chosen: list[Cue] = []
    for cue in matches:
        if not any(_conflict(cue, other) for other in chosen):
            chosen.append(cue)
    real = [cue for cue in chosen if cue.kind != "pseudo" and not _is_informant(cue, sentence)]
    return tuple(sorted(real, key=lambda cue: cue.start))


def _is_informant(cue: Cue, sentence: str) -> bool:
    """Whether a relative only reports on the patient ("Mother states he has no fever")."""
    return cue.kind == "family" and _REPORTS.match(sentence[cue.end :]) is not None


def _conflict(cue: Cue, other: Cue) -> bool:
    """Whether a cue overlaps a longer one; the two directions of one word may both stand."""
    is_boundary = "boundary" in (cue.kind, other.kind) and "pseudo" not in (cue.kind, other.kind)
    other_way = cue.kind == other.kind and cue.reaches_after != other.reaches_after
    if is_boundary or other_way:
        return False
    if (cue.start, cue.end) == (other.start, other.end):
        return "open" in (cue.kind, other.kind) and cue.kind != other.kind
    return cue.start < other.end and other.start < cue.end


def _boundaries(sentence: str, cues: tuple[Cue, ...]) -> list[int]:
    """Return the offsets that no cue reaches across."""
    offsets = [match.start() for match in _CLAUSE_END.finditer(sentence)]
    offsets += [cue.start for cue in cues if cue.kind == "boundary"]
    return sorted(offsets)


def _reaches(cue: Cue, start: int, end: int, sentence: str, boundaries: list[int]) -> bool:
    if cue.kind == "absent" and cue.start < start and end <= cue.end:
        return True
    if cue.reaches_after:
        if cue.end > start:
            return False
        crosses = cue.kind == "family" and not re.search(r"[.;]", sentence[cue.end : start])
        return crosses or not any(cue.end <= offset < start for offset in boundaries)
    if cue.start < end:
        return False
    between = sentence[end : cue.start]
    if len(between.split()) > MAX_WORDS_BACK:
        return False
    if _RELATIVE_CLAUSE.match(between):
        return True
    return not any(end <= offset < cue.start for offset in boundaries)
