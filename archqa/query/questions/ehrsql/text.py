"""What the dialect reads: the question in plain lower case, and the context sentence."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from archqa.fhir.values.text import normalise_text
from archqa.query.questions.lexer import letters_and_numbers, plain_signs, without_dots

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
    text = re.sub(r"\bSearch for\b", "search for", text)
    names = {}
    for match in _RECORD_NAME.finditer(text):
        names[normalise_text(match["phrase"]).strip()] = match["name"]
    return QuestionContext(
        now=_timestamp(now) if now else None,
        record_names=names,
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


PATIENT = "patient"
_NUMBERED = re.compile(
    r"\b(?:the )?(?:patient|pt|subject|case|mrn|person|individual)?(?:'s)? ?(?:fhir )?"
    r"(?:id|number|no|nr)?\.? ?(?:is )?[#:]? ?"
    r"(?:\b\d{7,}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22,}\b)(?:'s?)?(?!\d)"
)
_TITLED = re.compile(r"\b(?:(?:mr|mrs|miss)\.?|ms\.) [a-z]+(?:'s)?\b")
_PT_DOES = re.compile(
    r"\bpt(?:'s)?(?= (?:had|have|has|get|gets|got|receive|received|was|were|is|been|be|undergo|underwent|take|took|"
    r"given|on|ever|seen|hospitali[sz]ed|go|went|come|came|stay|stayed|spend|spent|admitted|discharged|prescribed|leave|left|weigh|weighed|"
    r"visit|visited|start|started|put|last|first|in|leaving|diagnosed|test|tested|grow|grew|being)\b)"
)
_THE_PT = re.compile(
    r"\b(?:the|this|our|my|did|has|was|does|is|had|have|were|will) pt(?:'s)?\b"
    r"(?! (?:values?|levels?|labs?|tests?|results?|readings?|measured|measurements?|checked|drawn|time|inr|ptt|above|"
    r"below))"
)
_POLITE = re.compile(
    r"\b(?:can|could|would|will|do|may|might) (?:you|i|we|u|someone|anyone|anybody)(?: (?:please|kindly))?\b ?"
)
_DANGLING = re.compile(r",? (?:was|is|were|are) ?\??$")
MASK = "\x01"
_SHORT = {
    "prev": "previous", "yr": "year", "yrs": "years", "wk": "week", "wks": "weeks", "mos": "months", "mths": "months",
    "hrs": "hours", "mins": "minutes", "inpt": "inpatient", "nr of": "number of", "w/o": "without", "w/": "with ",
    "b/w": "between", "btw": "between", "b/c": "because", "hx of": "history of", "s/p": "after", "tx": "treatment",
}  # fmt: skip
_SHORTENED = re.compile(
    rf"(?<![\w/])(?:{'|'.join(map(re.escape, sorted(_SHORT, key=len, reverse=True)))})(?![\w/])"
)


def normalize_question(question: str) -> str:
    """The question in lower case with plain signs, single blanks, and one word for the patient."""
    text = without_dots(normalise_text(plain_signs(question)))
    text = _DANGLING.sub("", _POLITE.sub("", text))
    text = _SHORTENED.sub(lambda match: _SHORT[match.group()], text)
    text = _TITLED.sub(PATIENT, _NUMBERED.sub(f" {PATIENT} ", text))
    if PATIENT not in text:
        text = _PT_DOES.sub(PATIENT, text)
    if PATIENT not in text:
        text = _THE_PT.sub(lambda match: match.group().replace("pt", PATIENT), text, count=1)
    text = re.sub(rf"\b{PATIENT}'s?(?![a-z])", PATIENT, text)
    return " ".join(text.split())


def lookup_key(text: str) -> str:
    """A name for loose comparison: its words, without the signs between them."""
    return " ".join(word.text for word in letters_and_numbers(without_dots(normalise_text(text))))


class MaskedText:
    """The text of a question, and which of its characters are interpreted already."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._characters = list(text)
        self.name_spans: list[tuple[int, int]] = []

    @property
    def masked(self) -> str:
        """The text with interpreted characters masked; every other character keeps its offset."""
        return "".join(self._characters)

    def mask(self, start: int, end: int) -> None:
        """Mark these characters as interpreted."""
        self._characters[start:end] = MASK * (end - start)

    def find_unmasked(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Matches in the unmasked text, left to right; the caller may mask on the way."""
        offset = 0
        while match := pattern.search(self.masked, offset):
            yield match
            offset = max(match.end(), offset + 1)

    def copy(self) -> "MaskedText":
        """The same text with the same masks, to try something out."""
        duplicate = MaskedText(self.text)
        duplicate._characters = list(self._characters)
        duplicate.name_spans = list(self.name_spans)
        return duplicate
