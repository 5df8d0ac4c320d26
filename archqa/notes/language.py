"""Whether a note is in English, by its function words; eight other languages have theirs counted.

Names of drugs and shorthand have no language, so only function words count: no model of a library
that knows languages is needed to tell English from the rest.
"""

import re
from functools import cache

from archqa.terminology.words import word_list

OTHER_LANGUAGE = (
    "Only notes in English are supported; this one seems to be in another language."
)
MAX_READ_CHARACTERS = 20_000
_MIN_FUNCTION_WORDS = 4
"""Fewer say nothing about the language."""

_MIN_LETTERS = 20
_MAX_OTHER_SCRIPT = 0.3
"""Share of letters outside the Latin and Greek alphabets; units and names of drugs have Greek ones."""

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_OTHER_SCRIPT = re.compile(
    r"[^\W\d_\u0000-\u03ff\u1e00-\u1fff\ufb00-\ufb06\uff21-\uff5a]"
)


def is_english(text: str) -> bool | None:
    """Return whether a text is in English, None where it has too few words that would tell."""
    text = text[:MAX_READ_CHARACTERS]
    letters = sum(map(str.isalpha, text))
    if letters < _MIN_LETTERS:
        return None
    if len(_OTHER_SCRIPT.findall(text)) > _MAX_OTHER_SCRIPT * letters:
        return False
    english, other = _function_words()
    words = _WORD.findall(text.lower())
    english_count = sum(1 for word in words if word in english)
    other_count = sum(1 for word in words if word in other)
    if max(english_count, other_count) < _MIN_FUNCTION_WORDS:
        return None
    return english_count >= other_count


@cache
def _function_words() -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of English alone, and those of other languages that English has not."""
    english, other = word_list("english"), word_list("other language")
    return english - other, other - english
