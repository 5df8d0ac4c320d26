"""The words of the dialect: cues for subject, field and aggregation, and the spelling of all words."""

import re
from collections import defaultdict
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple

from rapidfuzz import process
from rapidfuzz.distance import OSA

from archqa.core.tables import read_rows
from archqa.query.questions.ehrsql.names import synonyms

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
    for slot, value, weight, phrases in read_rows("query/questions/ehrsql/data/cues.tsv", 4):
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

    def best(self, slot: str, among: tuple[str, ...] = (), min_weight: float = 0.1) -> str | None:
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


def correct_spelling(text: str, vocabulary: Collection[str], names: Collection[str] = ()) -> str:
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
    match = process.extractOne(word, candidates, scorer=OSA.distance, score_cutoff=max_edits)
    if match is None:
        return None
    nearest = str(match[0])
    if nearest[0] != word[0] and nearest[1:2] != word[1:2]:
        return None
    if len(word) == 4 and sorted(nearest) != sorted(word):
        return None
    return nearest
