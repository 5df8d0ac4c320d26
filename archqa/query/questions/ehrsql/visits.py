"""Visits and positions in time: "last ... on the first ICU stay".

An ordinal next to a word for a visit belongs to the visit; any other is a position among the rows.
"""

import re
from typing import Any, NamedTuple

from archqa.query.questions.ehrsql.text import MaskedText
from archqa.query.scope import Position, Visit, VisitKind

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
_WHOSE = r"(?:(?:the|their|his|her|its|this|that|a|an|patient|entire|whole) )*"
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
_EXPLICIT = re.compile(rf"\b(?:{_WARD}|admission|adm|admit|hospitali[sz]ation|hosp|encounter)\b")
_IN_ICU = re.compile(rf"\b{_ICU}\b")
_PATTERNS = [re.compile(rf"(?<![a-z\d])(?:{form})(?![a-z\d])") for form in _FORMS]
_TIMES = r"(?: (?:ever|time|occasion|instance|one|occurrence|ones))?"
_POSITION = re.compile(
    rf"(?<![a-z\d])(?:(?:for|on|at|from) )?(?:the )?"
    rf"(?:(?P<ordinal>{_ORDINAL})|(?P<adverb>firstly|lastly|initially|recently|at first))(?P<times>{_TIMES})(?![a-z\d])"
)
_ADVERBS = {
    "firstly": "first",
    "initially": "first",
    "at first": "first",
    "lastly": "last",
    "recently": "last",
}


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
            visit = Visit(kind=_visit_kind(match), which=_which(match))
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


def _visit_kind(match: re.Match[str]) -> VisitKind:
    return "icu" if _IN_ICU.search(match.group()) else "hospital"


def _which(match: re.Match[str]) -> Any:
    groups = match.groupdict()
    if groups.get("before_last") is not None:
        return "second_to_last"
    if groups.get("number"):
        return ("first", "second", "third")[int(groups["number"]) - 1]
    return _ordinal(match)


def _ordinal(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return next(name for name in _ORDINALS if groups.get(name))
