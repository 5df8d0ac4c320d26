"""The phrases of the table: which stretches of a question they are found in."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from archqa.core.tables import read_rows
from archqa.query.questions.everyday.marks import Mark
from archqa.query.questions.lexer import Token, phrases_of
from archqa.terminology.concepts import concept_named

_AT_END = "$"
_AT_START = "^"
_ENDINGS = frozenset(",;?.!")
_JOINTS = frozenset({"and", "or"})


class Phrase(NamedTuple):
    """Words of a table and what they mean; at the end or the start of a part of the question only."""

    words: tuple[str, ...]
    kind: str
    value: str
    at_end: bool = False
    at_start: bool = False


def find_phrases(tokens: Sequence[Token]) -> Iterator[Mark]:
    """Every phrase of the tables at every place, also those that overlap."""
    for start, token in enumerate(tokens):
        for phrase in _phrases_by_first_word().get(token.text, ()):
            end = _end_of(phrase, tokens, start)
            if end is not None:
                yield _mark(phrase, start, end)


def _mark(phrase: Phrase, start: int, end: int) -> Mark:
    if phrase.kind != "measurement":
        return Mark(phrase.kind, phrase.value, start, end)
    concept = concept_named("measurement", phrase.value)
    return Mark("concept", "", start, end, concepts=(concept,))


def _end_of(phrase: Phrase, tokens: Sequence[Token], start: int) -> int | None:
    """Where a phrase ends; a hyphen, a slash or the dot of "E. coli" may stand between its words."""
    if phrase.at_start and not _is_start(tokens, start):
        return None
    place = start
    for number, word in enumerate(phrase.words):
        while number and _joins(tokens, place, phrase.words[number - 1]):
            place += 1
        if place == len(tokens) or tokens[place].text != word:
            return None
        place += 1
    if phrase.at_end and not _is_end(tokens, place):
        return None
    return place


def _is_end(tokens: Sequence[Token], place: int) -> bool:
    if place == len(tokens):
        return True
    return tokens[place].text in _ENDINGS | _JOINTS


def _joins(tokens: Sequence[Token], place: int, before: str) -> bool:
    if place == len(tokens):
        return False
    return tokens[place].text in {"-", "/", "&"} or (tokens[place].text == "." and len(before) == 1)


def _is_start(tokens: Sequence[Token], place: int) -> bool:
    return place == 0 or tokens[place - 1].text in _ENDINGS


@cache
def all_phrases() -> tuple[Phrase, ...]:
    """The phrases of `phrases.tsv`; of equal ones the first counts."""
    phrases: dict[tuple[tuple[str, ...], bool, bool], Phrase] = {}
    for kind, value, cell in read_rows("query/questions/everyday/data/phrases.tsv", 3):
        for phrase in _phrases(kind, value, cell):
            phrases.setdefault((phrase.words, phrase.at_end, phrase.at_start), phrase)
    return tuple(phrases.values())


def _phrases(kind: str, value: str, cell: str) -> Iterator[Phrase]:
    for pattern in cell.split("|"):
        at_end, at_start = pattern.endswith(_AT_END), pattern.endswith(_AT_START)
        for words in phrases_of(pattern.rstrip(_AT_END + _AT_START)):
            if words:
                yield Phrase(words, kind, value, at_end, at_start)


@cache
def _phrases_by_first_word() -> dict[str, tuple[Phrase, ...]]:
    by_first_word: dict[str, list[Phrase]] = defaultdict(list)
    for phrase in all_phrases():
        by_first_word[phrase.words[0]].append(phrase)
    return {word: tuple(phrases) for word, phrases in by_first_word.items()}
