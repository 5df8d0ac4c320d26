"""Words made comparable: lower-cased, without stop words and endings; numbers as written."""

import re
from functools import cache, lru_cache

from archqa.core.tables import read_rows

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
MIN_STEM_LENGTH = 4
MAX_TEXT_LENGTH = 4000
"""Characters of a text that are read; a sentence of a note is far shorter."""


@lru_cache(maxsize=2048)
def stems(text: str) -> tuple[str, ...]:
    """Return the stems of the content words of `text`, in order."""
    words = _TOKEN.findall(text[:MAX_TEXT_LENGTH].lower())
    return tuple(stem(word) for word in words if _is_content_word(word))


def extract_numbers(text: str) -> frozenset[str]:
    """Return the numbers of `text` as written."""
    return frozenset(_NUMBER.findall(text[:MAX_TEXT_LENGTH]))


def stem(word: str) -> str:
    """Return the word without its English ending; short words stay as they are."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= MIN_STEM_LENGTH:
            return word[: -len(suffix)].rstrip("e")
    if len(word) > MIN_STEM_LENGTH:
        return word.rstrip("e")
    return word


@cache
def stop_words() -> frozenset[str]:
    """Return the words without content of their own (`data/stopwords.tsv`)."""
    return frozenset(
        word for row in read_rows("notes/data/stopwords.tsv", 1) for word in row[0].split()
    )


def _is_content_word(word: str) -> bool:
    if word in stop_words():
        return False
    return len(word) > 1 or word.isdigit()
