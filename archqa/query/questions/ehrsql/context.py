"""The context sentence of a question: its time, names in the record, and where to search."""

import re
from typing import NamedTuple

from archqa.fhir.values.text import normalise_text

_NOW = re.compile(
    r"(?:current (?:time|date)|today|now|clock)\D{0,30}?(\d{4}-\d\d-\d\d)(?:[ t](\d\d:\d\d(?::\d\d)?))?"
)
_RECORD_NAME = re.compile(
    r"search for ['\"](?P<name>[^'\"]+)['\"] (?:to find|for) (?P<phrase>[^.]+)"
)
_TABLE = re.compile(r"when searching for [^,.]+, use the (?P<table>\w+) records?")
_CLOCK = re.compile(r" ?\(the clock stands at (\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?\)")
_KIND_OF_TABLE = {
    "labevents": "lab",
    "prescriptions": "medication",
    "chartevents": "vital",
    "outputevents": "output",
    "microbiologyevents": "microbiology_test",
    "procedures": "procedure",
    "diagnoses": "diagnosis",
}


class QuestionContext(NamedTuple):
    """The statements of the context.

    record_names: phrases of the question and the record's name for them.
    row_kind: the kind of rows to search.
    wants_sum: whether an amount is meant as a sum.
    """

    now: str | None = None
    record_names: dict[str, str] = {}
    row_kind: str | None = None
    wants_sum: bool = False


def parse_context(assumption: str) -> QuestionContext:
    """Read a context sentence; what it does not say stays open."""
    text = " ".join(assumption.split())
    folded = normalise_text(text)
    now = _NOW.search(folded)
    table = _TABLE.search(folded)
    return QuestionContext(
        now=_timestamp(now) if now else None,
        record_names=_record_names(text),
        row_kind=_KIND_OF_TABLE.get(table["table"]) if table else None,
        wants_sum="to be the sum" in folded,
    )


def extract_clock(question: str) -> tuple[str, str | None]:
    """A question without "(the clock stands at ...)", and the time it names."""
    match = _CLOCK.search(question)
    if match is None:
        return question, None
    return question[: match.start()] + question[match.end() :], _timestamp(match)


def _timestamp(match: re.Match[str]) -> str:
    return f"{match[1]}T{match[2] or '23:59:00'}"


def _record_names(text: str) -> dict[str, str]:
    text = re.sub(r"\bSearch for\b", "search for", text)
    names = {}
    for match in _RECORD_NAME.finditer(text):
        names[normalise_text(match["phrase"]).strip()] = match["name"]
    return names
