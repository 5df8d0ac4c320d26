"""Cue words: what a question is about, what it wants back, how that is summed up. They are in `data/cues.tsv`."""

import re
from collections import defaultdict
from functools import lru_cache
from typing import NamedTuple

from archqa.query.grammar.vocabulary import read_table


class Cue(NamedTuple):
    """One line of the table."""

    slot: str
    value: str
    weight: float
    pattern: re.Pattern[str]


@lru_cache
def cues() -> tuple[Cue, ...]:
    """The table of cues."""
    return tuple(
        Cue(slot, value, float(weight), _compiled(phrases))
        for slot, value, weight, phrases in read_table("cues.tsv")
    )


@lru_cache
def lexicon_words() -> frozenset[str]:
    """Every word that a cue may hold."""
    return frozenset(
        word
        for _, _, _, phrases in read_table("cues.tsv")
        for word in re.findall(r"(?<!\\)\b[a-z][a-z'/&]*[a-z]\b", phrases)
    )


@lru_cache
def stop_words() -> frozenset[str]:
    """Words that carry no limit of their own."""
    return frozenset(word for row in read_table("glue.txt") for word in " ".join(row).split())


class LexiconMatches:
    """The cues of a question: each slot's values with their weights, and which words said so."""

    def __init__(self, text: str) -> None:
        self._weights: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self.places: list[tuple[int, int]] = []
        self.at: dict[tuple[str, str], int] = {}
        for cue in cues():
            # A second occurrence adds little: the first says it.
            for found in cue.pattern.finditer(text):
                known = self._weights[cue.slot][cue.value]
                self._weights[cue.slot][cue.value] = max(known, cue.weight) + (
                    0.2 if known else 0.0
                )
                self.places.append(found.span())
                self.at.setdefault((cue.slot, cue.value), found.start())

    def weight(self, slot: str, value: str) -> float:
        """How strongly a value is said; 0 if it is not."""
        return self._weights[slot].get(value, 0.0)

    def values(self, slot: str) -> dict[str, float]:
        """The values of a slot and their weights."""
        return dict(self._weights[slot])

    def best(self, slot: str, among: tuple[str, ...] = (), at_least: float = 0.1) -> str | None:
        """The value that is said most strongly."""
        found = {
            value: weight
            for value, weight in self._weights[slot].items()
            if not among or value in among
        }
        value = max(found, key=lambda each: found[each], default=None)
        return value if value is not None and found[value] >= at_least else None


def _compiled(phrases: str) -> re.Pattern[str]:
    if phrases.startswith("/"):
        return re.compile(phrases.strip("/"))
    listed = sorted(phrases.split(","), key=len, reverse=True)
    return re.compile(rf"(?<![a-z\d])(?:{'|'.join(re.escape(each) for each in listed)})(?![a-z\d])")
