"""Words as they are compared: lower-cased, stop words dropped, endings cut, numbers kept."""

import re
from functools import cache, lru_cache

from archqa.evidence.tables import rows

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
LONGEST = 4000
"""Characters of one text that are looked at; a sentence of a note is far shorter."""


@lru_cache(maxsize=2048)
def stems(text: str) -> tuple[str, ...]:
    """The content words of `text`, stemmed, in order."""
    words = _TOKEN.findall(text[:LONGEST].lower())
    return tuple(stem(word) for word in words if word not in stop_words() and (len(word) > 1 or word.isdigit()))


def numbers(text: str) -> frozenset[str]:
    """The numbers of `text` as they are written."""
    return frozenset(re.findall(r"\d+(?:[./]\d+)*", text[:LONGEST]))


def stem(word: str) -> str:
    """The word without its commonest English ending; short words stay as they are."""
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 4:
            return word[: -len(suffix)].rstrip("e")
    return word.rstrip("e") if len(word) > 4 else word


@cache
def stop_words() -> frozenset[str]:
    """Words that say nothing of the matter (`data/stopwords.tsv`)."""
    return frozenset(word for row in rows("stopwords.tsv") for word in row[0].split())
