"""The lexicon of cue words in `data/cues.tsv`: subject, returned field and aggregation."""

import re
from collections import defaultdict
from functools import lru_cache
from typing import NamedTuple

from archqa.core.tables import read_rows

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
        cue = Cue(slot, value, float(weight), _compiled(phrases))
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
                self._add_match(cue, match)

    def _add_match(self, cue: Cue, match: re.Match[str]) -> None:
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


def _compiled(phrases: str) -> re.Pattern[str]:
    if phrases.startswith("/"):
        return re.compile(phrases.strip("/"))
    longest_first = sorted(phrases.split(","), key=len, reverse=True)
    alternatives = "|".join(map(re.escape, longest_first))
    return re.compile(rf"(?<![a-z\d])(?:{alternatives})(?![a-z\d])")
