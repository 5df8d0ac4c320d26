"""The text of a question and its context: plain lower case, correct spelling, cue words."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import NamedTuple

from rapidfuzz import process
from rapidfuzz.distance import OSA

from archqa.core.tables import read_rows
from archqa.fhir.values.text import normalise_text
from archqa.query.questions.calendar import read_stated_time, timestamp_of
from archqa.query.questions.ehrsql.names import synonyms
from archqa.query.questions.lexer import plain_signs, without_dots
from archqa.terminology.cues import names_by_code

_RECORD_NAME = re.compile(
    r"search for ['\"](?P<name>[^'\"]+)['\"] (?:to find|for) (?P<phrase>[^.]+)"
)
_TABLE = re.compile(r"when searching for [^,.]+, use the (?P<table>\w+) records?")
_CLOCK = re.compile(
    r" ?\(the clock stands at (\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?\)"
)
_KIND_OF_TABLE = names_by_code("kind of table")


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
    table = _TABLE.search(folded)
    text = re.sub(r"\bSearch for\b", "search for", text)
    names = {}
    for match in _RECORD_NAME.finditer(text):
        names[normalise_text(match["phrase"]).strip()] = match["name"]
    return QuestionContext(
        now=read_stated_time(text),
        record_names=names,
        row_kind=_KIND_OF_TABLE.get(table["table"]) if table else None,
        wants_sum="to be the sum" in folded,
    )


def extract_clock(question: str) -> tuple[str, str | None]:
    """A question without "(the clock stands at ...)", and the time it names."""
    match = _CLOCK.search(question)
    if match is None:
        return question, None
    return question[: match.start()] + question[match.end() :], timestamp_of(match)


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
        text = _THE_PT.sub(
            lambda match: match.group().replace("pt", PATIENT), text, count=1
        )
    text = re.sub(rf"\b{PATIENT}'s?(?![a-z])", PATIENT, text)
    return " ".join(text.split())


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


_CUE_WORD = re.compile(r"(?<!\\)\b[a-z][a-z'/&]*[a-z]\b")


class Cue(NamedTuple):
    """One line of the table."""

    slot: str
    value: str
    weight: float
    pattern: re.Pattern[str]


@lru_cache
def cues() -> tuple[Cue, ...]:
    """The table of cues."""
    table = []
    for slot, value, weight, phrases in read_rows(
        "query/questions/ehrsql/data/cues.tsv", 4
    ):
        if phrases.startswith("/"):
            compiled = re.compile(phrases.strip("/"))
        else:
            longest_first = sorted(phrases.split(","), key=len, reverse=True)
            alternatives = "|".join(map(re.escape, longest_first))
            compiled = re.compile(rf"(?<![a-z\d])(?:{alternatives})(?![a-z\d])")
        cue = Cue(slot, value, float(weight), compiled)
        table.append(cue)
    return tuple(table)


@lru_cache
def lexicon_words() -> frozenset[str]:
    """Every word that occurs in a cue."""
    words: set[str] = set()
    for *_, phrases in read_rows("query/questions/ehrsql/data/cues.tsv", 4):
        words.update(_CUE_WORD.findall(phrases))
    return frozenset(words)


@lru_cache
def stop_words() -> frozenset[str]:
    """Words that do not limit what is asked."""
    words: set[str] = set()
    for (line,) in read_rows("query/questions/ehrsql/data/glue.txt", 1):
        words.update(line.split())
    return frozenset(words)


class LexiconMatches:
    """The cues in a question: the weights of each slot's values, and where they match."""

    def __init__(self, text: str) -> None:
        self._weights: dict[str, dict[str, float]] = defaultdict(dict)
        self.matched_spans: list[tuple[int, int]] = []
        self.first_offsets: dict[tuple[str, str], int] = {}
        for cue in cues():
            for match in cue.pattern.finditer(text):
                weights = self._weights[cue.slot]
                if cue.value in weights:
                    # A further occurrence adds little.
                    weights[cue.value] = max(weights[cue.value], cue.weight) + 0.2
                else:
                    weights[cue.value] = cue.weight
                self.matched_spans.append(match.span())
                self.first_offsets.setdefault((cue.slot, cue.value), match.start())

    def weight(self, slot: str, value: str) -> float:
        """The weight of a value; 0 if the question has no cue for it."""
        return self._weights[slot].get(value, 0.0)

    def weights(self, slot: str) -> dict[str, float]:
        """The values of a slot and their weights."""
        return dict(self._weights[slot])

    def best(
        self, slot: str, among: tuple[str, ...] = (), min_weight: float = 0.1
    ) -> str | None:
        """The value with the greatest weight, if that reaches `min_weight`."""
        weights = self._weights[slot]
        candidates = [value for value in weights if not among or value in among]
        best = max(candidates, key=weights.__getitem__, default=None)
        if best is None or weights[best] < min_weight:
            return None
        return best


_WORD = re.compile(r"(?<![a-z\d/&])[a-z]{4,}(?![a-z\d/&])")
_TIME = """
    january february march april june july august september october november december jan feb sept second seconds
    third penultimate today yesterday month months year years since hospital emergency intensive critical recent latest
    earliest initial final most between route inpatient hospitalization hospitalisation encounter admission than greater
    one two three four five six seven eight nine ten eleven twelve couple half past preceding trailing until till prior
    onwards throughout calendar yesterday tonight penultimate antepenultimate firstly lastly initially recently newest
    oldest closing ongoing episode episodes trip trips course courses beginning starting exceeds beneath beyond
    minute minutes hour hours week weeks day days kilograms percent celsius
    hosp itu enc adm admits higher lower exceeding exceeded above below under unit units care number
"""


@lru_cache
def _grammar_words() -> frozenset[str]:
    words = set(_TIME.split())
    words.update(filter(str.isalpha, lexicon_words() | stop_words()))
    for synonym in synonyms():
        words.update(synonym.phrase.split())
    return frozenset(word for word in words if len(word) > 2)


@lru_cache
def _long_grammar_words() -> tuple[str, ...]:
    words = [word for word in _grammar_words() if len(word) > 3]
    return tuple(sorted(words))


def correct_spelling(
    text: str, vocabulary: Collection[str], names: Collection[str] = ()
) -> str:
    """The text with misspelt words corrected: one edit in names, two in a long plain word."""

    def correct(match: re.Match[str]) -> str:
        word = match.group()
        if word in _grammar_words():
            return word
        if word in vocabulary or word.rstrip("s") in vocabulary:
            return word
        name = None
        if len(word) > 6:
            name = _nearest(word, names, 1)
        return (
            name
            or _nearest(word, _long_grammar_words(), 1)
            or _nearest(word, vocabulary, 1)
            or _nearest(word, _long_grammar_words(), 2)
            or word
        )

    return _WORD.sub(correct, text)


def _nearest(word: str, candidates: Collection[str], max_edits: int) -> str | None:
    """The candidate within so many edits.

    In four letters only a swap counts: `life` is no misspelling of `like`.
    """
    min_length = 7
    if max_edits == 1:
        min_length = 4
    if len(word) < min_length:
        return None
    match = process.extractOne(
        word, candidates, scorer=OSA.distance, score_cutoff=max_edits
    )
    if match is None:
        return None
    nearest = str(match[0])
    if nearest[0] != word[0] and nearest[1:2] != word[1:2]:
        return None
    if len(word) == 4 and sorted(nearest) != sorted(word):
        return None
    return nearest
