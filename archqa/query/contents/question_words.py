"""The words of a question, looked up among a patient's rows before anybody asks for it."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from archqa.query.contents.inventory import RecordContents
from archqa.query.contents.name_lookup import look_up
from archqa.terminology.words import word_list

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9'-]*")
_LEAST_LETTERS = 3
_MAX_NAMES = 5
"""A word that more rows are called after names a kind, as "test" does, and tells nothing."""


class NamedWords(NamedTuple):
    """Words of a question, and what is called so in the record, a line each."""

    words: str
    lines: tuple[str, ...]


def look_up_question(contents: RecordContents, question: str) -> list[NamedWords]:
    """What the question's own words are called in the record, in the order of the question.

    Two adjacent words that name something together are looked up together. Words that nothing, or
    too much, is called after are left out.
    """
    words = _content_words(question)
    named = list(_named(contents, [" ".join(pair) for pair in pairwise(words)]))
    in_pairs = {word for each in named for word in each.words.split()}
    named += _named(contents, [word for word in words if word not in in_pairs])
    return sorted(named, key=lambda each: words.index(each.words.split()[0]))


def _named(contents: RecordContents, phrases: list[str]) -> Iterator[NamedWords]:
    for phrase in dict.fromkeys(phrases):
        lines = look_up(contents, phrase, limit=_MAX_NAMES + 1, whole_words=True)
        if 0 < len(lines) <= _MAX_NAMES:
            yield NamedWords(phrase, lines)


def _content_words(question: str) -> list[str]:
    words = _WORD.findall(question)
    empty = word_list("stop")
    return [word for word in words if len(word) >= _LEAST_LETTERS and word.lower() not in empty]
