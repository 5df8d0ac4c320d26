"""The tables of `data/`: which phrases say what about the last question."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from archqa.core.tables import read_rows
from archqa.query.questions.lexer import phrases_of

SUBJECT = "thatsubject"
"""Stands in the tables for a reference, such as "it" or "the first one"."""

PERIOD = "theperiod"
"""Stands in the tables for a stretch of time, such as "in 2020"."""

POINTING_WORDS = frozenset({"it", "that", "this", "these", "those", "them"})

AT_END = "$"
"""A phrase that ends so counts only where the question, or a part of it, ends."""


class Phrase(NamedTuple):
    """Words of a table and what they mean."""

    words: tuple[str, ...]
    kind: str
    value: str
    at_end: bool = False


@cache
def whole_phrases() -> dict[tuple[str, ...], Phrase]:
    """Return the follow-ups that are known as a whole; of equal ones the first counts."""
    phrases: dict[tuple[str, ...], Phrase] = {}
    for kind, value, cell in read_rows("asking/thread/data/follow_ups.tsv", 3):
        for phrase in _phrases(kind, value, cell):
            words = tuple(SUBJECT if word in POINTING_WORDS else word for word in phrase.words)
            phrases.setdefault(words, phrase._replace(words=words))
    return phrases


@cache
def references() -> tuple[Phrase, ...]:
    """Return the phrases that refer to the last question, the longest first."""
    return _longest_first(_phrases_of("reference"))


@cache
def edge_words(place: str) -> tuple[Phrase, ...]:
    """Return the phrases that say nothing at the `start` or the `end`, the longest first."""
    return _longest_first([phrase for phrase in _phrases_of("edge") if phrase.kind == place])


@cache
def subject_kind_phrases() -> tuple[Phrase, ...]:
    """Return the phrases that are said of one kind of subject."""
    return tuple(_phrases_of("subject"))


def _phrases_of(group: str) -> list[Phrase]:
    """Return the phrases of a group of `references.tsv`, in its order."""
    rows = read_rows("asking/thread/data/references.tsv", 4)
    return [phrase for row in rows if row[0] == group for phrase in _phrases(*row[1:])]


@cache
def templates() -> dict[tuple[str, str], str]:
    """Return the standalone questions by what is asked and the kind of the subject."""
    return {
        (asked, kind): question
        for asked, kind, question in read_rows("asking/thread/data/question_templates.tsv", 3)
    }


def longest_at(phrases: Sequence[Phrase], words: Sequence[str], start: int) -> Phrase | None:
    """Return the longest of the phrases (longest first) that stands at a place of the words."""
    for phrase in phrases:
        end = start + len(phrase.words)
        if tuple(words[start:end]) != phrase.words:
            continue
        if not phrase.at_end or _is_end(words, end):
            return phrase
    return None


def _is_end(words: Sequence[str], place: int) -> bool:
    """Whether a question, or a part of it, ends here, or a verb follows."""
    if place == len(words) or not words[place].isalnum():
        return True
    return any(phrase.words == (words[place],) for phrase in edge_words("after"))


def contains(words: Sequence[str], phrase: Phrase) -> bool:
    """Whether the words of a phrase stand somewhere in a row."""
    return any(longest_at((phrase,), words, start) for start in range(len(words)))


def _phrases(kind: str, value: str, cell: str) -> Iterator[Phrase]:
    for pattern in cell.split("|"):
        for words in phrases_of(pattern.rstrip(AT_END)):
            if words:
                yield Phrase(words, kind, value, pattern.endswith(AT_END))


def _longest_first(phrases: list[Phrase]) -> tuple[Phrase, ...]:
    return tuple(sorted(phrases, key=lambda phrase: -len(phrase.words)))
