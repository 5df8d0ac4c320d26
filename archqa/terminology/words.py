"""Words in one form: spelling and number, stems of content words, and the lists of `words.tsv`."""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from archqa.core.tables import EMPTY, read_mapping, read_rows, split_cell

MAX_TEXT_LENGTH = 4000
"""Characters of a text that are read; a sentence of a note is far shorter."""

MIN_STEM_LENGTH = 4

_WORD = re.compile(r"([a-z0-9]+)(?:['’]s\b|(?<=s)['’](?!\w))?", re.IGNORECASE)
"""A word, and the possessive ending that is no part of it."""

_SINGULAR_ENDINGS = ("ss", "us", "is")
_ES_ENDINGS = ("xes", "ches", "shes", "sses", "zes")
_ACHES = re.compile(r"[^aeiout]aches$")
"""Headaches, earaches: the plural of "ache", where "peaches" is that of "peach"."""

_SHORTEST_PLURAL = 4

_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+(?:\.\d+)?")
_NUMBER = re.compile(r"\d+(?:[./]\d+)*")
_SUFFIXES = (
    "ations",
    "ation",
    "ments",
    "ment",
    "ingly",
    "ings",
    "ing",
    "edly",
    "ied",
    "ies",
    "ed",
    "es",
    "ly",
    "s",
    "al",
    "ic",
)


class Word(NamedTuple):
    """A word as written, with its place in the text and its common form."""

    written: str
    start: int
    end: int
    common: str


def read_words(text: str) -> list[Word]:
    """Return the words of `text`; a possessive ending belongs to the place of its word."""
    words = []
    for match in _WORD.finditer(text):
        words.append(Word(match[1], match.start(), match.end(), common_form(match[1])))
    return words


def common_forms(text: str) -> tuple[str, ...]:
    """Return the common forms of the words of `text`."""
    return tuple(map(common_form, _WORD.findall(text)))


@lru_cache(maxsize=16384)
def common_form(word: str) -> str:
    """Return a word in lower case, American and singular: `Haemorrhoids` as `hemorrhoid`."""
    american = _BRITISH.sub(lambda british: _AMERICAN[british[0]], word.lower())
    if len(american) < _SHORTEST_PLURAL or not american.endswith("s"):
        return american
    if american.endswith(_SINGULAR_ENDINGS):
        return american
    if american.endswith("ies"):
        return american[:-3] + "y"
    if _ACHES.search(american):
        return american[:-1]
    return american[:-2] if american.endswith(_ES_ENDINGS) else american[:-1]


@lru_cache(maxsize=2048)
def stems(text: str) -> tuple[str, ...]:
    """Return the stems of the content words of `text`, in order; numbers as written."""
    stop_words = word_list("stop")
    stemmed = []
    for word in _TOKEN.findall(text[:MAX_TEXT_LENGTH].lower()):
        if word not in stop_words and (len(word) > 1 or word.isdigit()):
            stemmed.append(stem(word))
    return tuple(stemmed)


def stem(word: str) -> str:
    """Return a word in lower case without its English ending; short words stay as they are."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= MIN_STEM_LENGTH:
            return word[: -len(suffix)].rstrip("e")
    if len(word) > MIN_STEM_LENGTH:
        return word.rstrip("e")
    return word


def extract_numbers(text: str) -> frozenset[str]:
    """Return the numbers of `text` as written."""
    return frozenset(_NUMBER.findall(text[:MAX_TEXT_LENGTH]))


@cache
def word_list(*names: str) -> frozenset[str]:
    """Return the words of the lists with these names in `data/words.tsv`.

    Raises:
        KeyError: No list has the name.
    """
    lists = _word_lists()
    return frozenset().union(*(lists[name] for name in names))


@cache
def _word_lists() -> dict[str, frozenset[str]]:
    lists: dict[str, frozenset[str]] = {}
    for name, words in read_rows("terminology/data/words.tsv", 2):
        lists[name] = lists.get(name, frozenset()) | frozenset(words.split())
    return lists


_AMERICAN = dict(pair.split("=") for pair in word_list("british=american"))
"""Parts of words in British spelling, and in American."""

_BRITISH = re.compile("|".join(sorted(_AMERICAN, key=len, reverse=True)))


@lru_cache(maxsize=65536)
def display_words(display: str) -> frozenset[str]:
    """Return the common forms of the words of a display, without those that mean nothing in a name.

    A word that begins with `*` keeps its star: it stands for an ending.
    """
    if display.startswith("*"):
        return frozenset({display})
    return frozenset(common_forms(display)) - _empty_words()


def word_sets(cell: str) -> tuple[frozenset[str], ...]:
    """Return the alternatives of a cell, each as the set of its words."""
    alternatives = map(display_words, split_cell(cell))
    return tuple(filter(None, alternatives))


@cache
def display_word_sets(use: str) -> tuple[frozenset[str], ...]:
    """Return the word sets of a row of `display_words.tsv`; of an unknown use, none."""
    return word_sets(read_mapping("terminology/data/display_words.tsv").get(use, EMPTY))


@cache
def single_display_words(use: str) -> frozenset[str]:
    """Return the words of a row of `display_words.tsv` as one set."""
    return frozenset().union(*display_word_sets(use))


@cache
def _empty_words() -> frozenset[str]:
    words = read_mapping("terminology/data/display_words.tsv")["empty"]
    return frozenset(common_forms(words))
