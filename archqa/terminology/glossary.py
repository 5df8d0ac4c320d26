"""Explanations of abbreviations, brand names and terms, for readers who are no clinicians."""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from archqa.core.tables import read_rows
from archqa.terminology.words import MAX_TEXT_LENGTH

GLOSSARY_SOURCE = "archqa glossary 1 (CC0-1.0)"
MIN_PLAIN_WORD_LENGTH = 4
_WORD = re.compile(r"[A-Za-z][\w./&'-]*")


class Entry(NamedTuple):
    """A term, its meaning, and the meaning in plain words (empty where that adds nothing)."""

    term: str
    meaning: str
    plain: str = ""

    def explanation(self) -> str:
        """Return, for example, `HTN: hypertension (high blood pressure)`."""
        explanation = f"{self.term}: {self.meaning}"
        return f"{explanation} ({self.plain})" if self.plain else explanation

    def is_abbreviation(self) -> bool:
        """Whether the term must be matched exactly, since in lower case it may be a word."""
        capitals = sum(letter.isupper() for letter in self.term)
        return capitals >= 2 or len(self.term) < MIN_PLAIN_WORD_LENGTH


@lru_cache(maxsize=2048)
def explain_terms(text: str) -> tuple[str, ...]:
    """Return an explanation for each term of `text`, once, in the order of the text."""
    entries = load_glossary()
    explanations: dict[str, None] = {}
    for match in _WORD.findall(text[:MAX_TEXT_LENGTH]):
        word = match.rstrip(".,'-/")
        entry = entries.get(word) or entries.get(word.lower())
        if entry:
            explanations[entry.explanation()] = None
    return tuple(explanations)


@cache
def load_glossary() -> dict[str, Entry]:
    """Return the entries by their exact form, and plain words by their lower-case form too."""
    exact = {}
    lower_case = {}
    for row in read_rows("terminology/data/glossary.tsv", 3, optional=1):
        entry = Entry(*row)
        exact[entry.term] = entry
        if not entry.is_abbreviation():
            lower_case[entry.term.lower()] = entry
    return lower_case | exact
