"""A question as the grammar reads it: lower case, plain signs, without the patient's number.

A rule masks the words it has interpreted, so that no later rule interprets them again.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from archqa.fhir.values.text import normalise_text

PATIENT = "patient"
_SIGNS = str.maketrans(
    {"’": "'", "‘": "'", "`": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "\u00a0": " "}
)
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
_DOTTED = re.compile(r"(?<![a-z.])(?:[a-z]\.){2,4}(?![a-z])")
_POLITE = re.compile(
    r"\b(?:can|could|would|will|do|may|might) (?:you|i|we|u|someone|anyone|anybody)(?: (?:please|kindly))?\b ?"
)
_DANGLING = re.compile(r",? (?:was|is|were|are) ?\??$")
_WORD = re.compile(r"[a-z]+|\d+(?:\.\d+)?")
MASK = "\x01"
_SHORT = {
    "prev": "previous", "yr": "year", "yrs": "years", "wk": "week", "wks": "weeks", "mos": "months", "mths": "months",
    "hrs": "hours", "mins": "minutes", "inpt": "inpatient", "nr of": "number of", "w/o": "without", "w/": "with ",
    "b/w": "between", "btw": "between", "b/c": "because", "hx of": "history of", "s/p": "after", "tx": "treatment",
}  # fmt: skip
_SHORTENED = re.compile(
    rf"(?<![\w/])(?:{'|'.join(map(re.escape, sorted(_SHORT, key=len, reverse=True)))})(?![\w/])"
)


class TextToken(NamedTuple):
    """A run of letters, or a number, and where it stands."""

    text: str
    start: int
    end: int


def normalize_question(question: str) -> str:
    """The question in lower case with plain signs, single blanks, and one word for the patient."""
    text = _undotted(normalise_text(question.translate(_SIGNS)))
    text = _DANGLING.sub("", _POLITE.sub("", text))
    text = _SHORTENED.sub(lambda match: _SHORT[match.group()], text)
    text = _TITLED.sub(PATIENT, _NUMBERED.sub(f" {PATIENT} ", text))
    if PATIENT not in text:
        text = _PT_DOES.sub(PATIENT, text)
    if PATIENT not in text:
        text = _THE_PT.sub(lambda match: match.group().replace("pt", PATIENT), text, count=1)
    text = re.sub(rf"\b{PATIENT}'s?(?![a-z])", PATIENT, text)
    return " ".join(text.split())


def tokenize(text: str) -> list[TextToken]:
    """The words of a text, letters apart from numbers: "spo2" is two."""
    return [TextToken(match.group(), match.start(), match.end()) for match in _WORD.finditer(text)]


def lookup_key(text: str) -> str:
    """A name for loose comparison: its words, without the signs between them."""
    return " ".join(word.text for word in tokenize(_undotted(normalise_text(text))))


def _undotted(text: str) -> str:
    """ "e.r." is "er"."""
    return _DOTTED.sub(lambda match: match.group().replace(".", ""), text)


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
