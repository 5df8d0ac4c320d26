"""A question as the grammar reads it: lower case, plain signs, the patient's number gone.

What a part of the grammar has understood it claims, so that no other part reads the same words again.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from archqa.fhir.values.tokens import normalise_text

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
CLAIMED = "\x01"
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
    text = _SHORTENED.sub(lambda found: _SHORT[found.group()], text)
    text = _TITLED.sub(PATIENT, _NUMBERED.sub(f" {PATIENT} ", text))
    if PATIENT not in text:
        text = _PT_DOES.sub(PATIENT, text)
    if PATIENT not in text:
        text = _THE_PT.sub(lambda found: found.group().replace("pt", PATIENT), text, count=1)
    text = re.sub(rf"\b{PATIENT}'s?(?![a-z])", PATIENT, text)
    return " ".join(text.split())


def tokenize(text: str) -> list[TextToken]:
    """The words of a text, letters apart from numbers: "spo2" is two."""
    return [TextToken(found.group(), found.start(), found.end()) for found in _WORD.finditer(text)]


def lookup_key(text: str) -> str:
    """A name as it is compared loosely: its words, without the signs between them."""
    return " ".join(word.text for word in tokenize(_undotted(normalise_text(text))))


def _undotted(text: str) -> str:
    """ "e.r." is "er"."""
    return _DOTTED.sub(lambda found: found.group().replace(".", ""), text)


class MaskedText:
    """The text of a question, and which of its characters are claimed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._signs = list(text)
        self.name_spans: list[tuple[int, int]] = []

    @property
    def open(self) -> str:
        """The text with what is claimed blotted out; every word keeps its place."""
        return "".join(self._signs)

    def mask(self, start: int, end: int) -> None:
        """From now on these characters are understood."""
        self._signs[start:end] = CLAIMED * (end - start)

    def find(self, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
        """Matches in what nobody has claimed, left to right; what the caller claims on the way is not found again."""
        at = 0
        while found := pattern.search(self.open, at):
            yield found
            at = max(found.end(), at + 1)

    def copy(self) -> "MaskedText":
        """The same text with the same claims, to try something out."""
        other = MaskedText(self.text)
        other._signs = list(self._signs)
        other.name_spans = list(self.name_spans)
        return other
