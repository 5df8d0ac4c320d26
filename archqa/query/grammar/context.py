"""The context sentence beside a question: what time it is, what a thing is called in the record, where to look."""

import re
from typing import NamedTuple

from archqa.fhir.values.tokens import normalise_text

_NOW = re.compile(
    r"(?:current (?:time|date)|today|now|clock)\D{0,30}?(\d{4}-\d\d-\d\d)(?:[ t](\d\d:\d\d(?::\d\d)?))?"
)
_CALLED = re.compile(r"search for ['\"](?P<name>[^'\"]+)['\"] (?:to find|for) (?P<said>[^.]+)")
_PLACE = re.compile(r"when searching for (?P<said>[^,.]+), use the (?P<place>\w+) records?")
_PLACES = {
    "labevents": "lab",
    "prescriptions": "medication",
    "chartevents": "vital",
    "outputevents": "output",
    "microbiologyevents": "microbiology_test",
    "procedures": "procedure",
    "diagnoses": "diagnosis",
}


class QuestionContext(NamedTuple):
    """What the context says.

    `called`: words → the name in the record; `place`: which kind of row; `total`: whether a sum is wanted.
    """

    now: str | None = None
    record_names: dict[str, str] = {}
    place: str | None = None
    total: bool = False


def parse_context(assumption: str) -> QuestionContext:
    """Read a context sentence; what it does not say is left open."""
    text = " ".join(assumption.split())
    folded = normalise_text(text)
    now = _NOW.search(folded)
    place = _PLACE.search(folded)
    return QuestionContext(
        now=f"{now[1]}T{now[2] or '23:59:00'}" if now else None,
        record_names={
            normalise_text(found["said"]).strip(): found["name"]
            for found in _CALLED.finditer(_lower_verbs(text))
        },
        place=_PLACES.get(place["place"]) if place else None,
        total="to be the sum" in folded,
    )


def extract_clock(question: str) -> tuple[str, str | None]:
    """A question without "(the clock stands at ...)", and the time it names."""
    found = _CLOCK.search(question)
    if found is None:
        return question, None
    return question[: found.start()] + question[
        found.end() :
    ], f"{found[1]}T{found[2] or '23:59:00'}"


_CLOCK = re.compile(r" ?\(the clock stands at (\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?\)")


def _lower_verbs(text: str) -> str:
    return re.sub(r"\bSearch for\b", "search for", text)
