"""Words of displays that decide whether a display names a concept."""

from functools import cache, lru_cache

from archqa.core.tables import read_rows, split_cell
from archqa.query.concepts.concept import DisplayRule
from archqa.query.concepts.words import stems


@cache
def word_list(use: str) -> tuple[frozenset[str], ...]:
    """Return the word sets of a row of `display_words.tsv`; of an unknown use, none."""
    for row_use, words in read_rows("query/concepts/data/display_words.tsv", 2):
        if row_use == use:
            return word_sets(words)
    return ()


@cache
def single_words(use: str) -> frozenset[str]:
    """Return the words of a row of `display_words.tsv` as one set."""
    return frozenset().union(*word_list(use))


def word_sets(cell: str) -> tuple[frozenset[str], ...]:
    """Return the alternatives of a cell, each as the set of its words."""
    alternatives = (content_words(entry) for entry in split_cell(cell))
    return tuple(words for words in alternatives if words)


def content_words(text: str) -> frozenset[str]:
    """Return the words of a display without those that mean nothing in a name.

    A word that begins with `*` keeps its star: it stands for an ending.
    """
    if text.startswith("*"):
        return frozenset({text})
    return frozenset(stems(text)) - _empty_words()


@lru_cache(maxsize=65536)
def display_words(display: str) -> frozenset[str]:
    """Return the content words of a record's display."""
    return content_words(display)


def holds(words: frozenset[str], rule: DisplayRule) -> bool:
    """Tell whether a display with these words holds the words of a rule and none excluded."""
    if not all(_has(words, word) for word in rule.words):
        return False
    return not any(excluded <= words for excluded in rule.excluded)


def _has(words: frozenset[str], word: str) -> bool:
    if not word.startswith("*"):
        return word in words
    return any(each.endswith(word[1:]) for each in words)


@cache
def _empty_words() -> frozenset[str]:
    for use, words in read_rows("query/concepts/data/display_words.tsv", 2):
        if use == "empty":
            return frozenset(stem for word in split_cell(words) for stem in stems(word))
    return frozenset()
