"""Which visit, and which one in the order of time: "last ... on the first ICU stay".

An ordinal that stands by a word for a visit names the visit; any other is a position among the rows.
"""

import re
from typing import Any, Literal, NamedTuple

from archqa.query.grammar.text import MaskedText
from archqa.query.scope import Position, Visit, VisitKind

Which = Position | Literal["current"]

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
_PLACE = rf"(?:{_ICU}|{_HOSPITAL})"
_STAY = (
    r"(?:visits?|stays?|encounters?|enc|admissions?|adm|admits?|hospitali[sz]ations?|hosp|trips?|episodes?|"
    r"attendance|in-?patient|hospital courses?|courses?)"
)
_WHOSE = r"(?:(?:the|their|his|her|its|this|that|a|an|patient|entire|whole) )*"
_IN = r"(?:(?:in|on|during|at|for|within|of|over|throughout|from|across|while|upon|when|with) )?"
_PRONOUN = r"(?:(?:he|she|they|patient|the patient) )?(?:(?:was|were|is|got|being|been|had been) )?"
_FORMS = [
    rf"{_IN}{_WHOSE}(?:time of )?(?P<before_last>)(?:{_PLACE} )?{_STAY} before (?:the )?last",
    rf"{_IN}{_WHOSE}(?:{_ORDINAL}),? (?:{_PLACE} )?(?:admission )?{_STAY}(?: (?:to|in|at|on|into) (?:the )?{_PLACE})?",
    rf"{_IN}{_WHOSE}{_PLACE} {_STAY} (?:number |no\.? |#)?(?P<number>[123])\b",
    rf"{_IN}{_WHOSE}{_PLACE} (?:{_ORDINAL}) {_STAY}",
    rf"{_IN}{_WHOSE}(?:{_ORDINAL}) (?:time )?{_PRONOUN}(?:in|at|on|inside|stayed in|stayed at|admitted to|were in) "
    rf"(?:the )?{_PLACE}",
    rf"{_IN}{_WHOSE}(?:{_ORDINAL}) (?:{_PLACE})(?= |$|[?.,])",
    rf"(?:when|while|during|the time|time) (?:the )?{_PRONOUN}(?:{_ORDINAL}) "
    rf"(?:hospitali[sz]ed|in-?patient|admitted to the {_PLACE}|in (?:the )?{_PLACE})",
    r"(?:while|when|since being) (?:currently )?(?:in-?patient|in hospital|in the hospital|hospitali[sz]ed)"
    r"(?P<current> now| currently| at present)",
]
_PLACED = re.compile(rf"\b(?:{_PLACE}|admission|adm|admit|hospitali[sz]ation|hosp|encounter)\b")
_IN_ICU = re.compile(rf"\b{_ICU}\b")
_PATTERNS = [re.compile(rf"(?<![a-z\d])(?:{form})(?![a-z\d])") for form in _FORMS]
_TIMES = r"(?: (?:ever|time|occasion|instance|one|occurrence|ones))?"
_POSITION = re.compile(
    rf"(?<![a-z\d])(?:(?:for|on|at|from) )?(?:the )?"
    rf"(?:(?P<place>{_ORDINAL})|(?P<adverb>firstly|lastly|initially|recently|at first))(?P<times>{_TIMES})(?![a-z\d])"
)
_ADVERBS = {
    "firstly": "first",
    "initially": "first",
    "at first": "first",
    "lastly": "last",
    "recently": "last",
}


class FoundVisit(NamedTuple):
    """A visit and where its words stand. `placed`: the words say where it was, or that it was an admission."""

    visit: Visit
    start: int
    end: int
    is_explicit: bool = True


class FoundPosition(NamedTuple):
    """A position and where its words stand. `times`: it says "the first time"."""

    position: Position
    start: int
    end: int
    times: bool


def find_visits(sentence: MaskedText) -> list[FoundVisit]:
    """The visits a question names, in the order of its words. Claims their words."""
    found = []
    for pattern in _PATTERNS:
        for match in sentence.find(pattern):
            sentence.mask(*match.span())
            placed = bool(_PLACED.search(match.group()))
            found.append(
                FoundVisit(Visit(kind=_kind(match), which=_which(match)), *match.span(), placed)
            )
    return sorted(found, key=lambda each: each.start)


def find_positions(sentence: MaskedText) -> list[FoundPosition]:
    """The ordinals that are left, in the order of the words. Claims them."""
    found = []
    for match in sentence.find(_POSITION):
        said = match.groupdict()
        if said["adverb"]:
            which: Any = _ADVERBS[said["adverb"]]
        else:
            which = next(name for name in _ORDINALS if said[name])
        if which == "current":
            continue
        sentence.mask(*match.span())
        found.append(
            FoundPosition(which, *match.span(), times=bool(said["times"].strip() in _OCCASIONS))
        )
    return found


_OCCASIONS = {"time", "occasion", "instance", "occurrence"}


def _kind(match: re.Match[str]) -> VisitKind:
    return "icu" if _IN_ICU.search(match.group()) else "hospital"


def _which(match: re.Match[str]) -> Any:
    said = match.groupdict()
    if said.get("before_last") is not None:
        return "second_to_last"
    if said.get("number"):
        return ("first", "second", "third")[int(said["number"]) - 1]
    return next(name for name in _ORDINALS if said.get(name))
