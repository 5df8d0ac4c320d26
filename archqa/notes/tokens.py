"""Words as they are compared: lower-cased, stop words dropped, endings cut, numbers kept."""

import re
from functools import cache, lru_cache

from archqa.notes.tables import read_rows

_TOKEN = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+(?:\.\d+)?")
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
MAX_TEXT_LENGTH = 4000
"""Characters of one text that are looked at; a sentence of a note is far shorter."""


@lru_cache(maxsize=2048)
def stems(text: str) -> tuple[str, ...]:
    """The content words of `text`, stemmed, in order."""
    words = _TOKEN.findall(text[:MAX_TEXT_LENGTH].lower())
    return tuple(
        stem(word)
        for word in words
        if word not in stop_words() and (len(word) > 1 or word.isdigit())
    )


def extract_numbers(text: str) -> frozenset[str]:
    """The numbers of `text` as they are written."""
    return frozenset(re.findall(r"\d+(?:[./]\d+)*", text[:MAX_TEXT_LENGTH]))


def stem(word: str) -> str:
    """The word without its commonest English ending; short words stay as they are."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 4:
            return word[: -len(suffix)].rstrip("e")
    return word.rstrip("e") if len(word) > 4 else word


@cache
def stop_words() -> frozenset[str]:
    """Words that say nothing of the matter (`data/stopwords.tsv`)."""
    return frozenset(word for row in read_rows("stopwords.tsv") for word in row[0].split())
