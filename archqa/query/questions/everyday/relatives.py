"""The patient as a relative of who asks: "has mom had her flu shot", "my husband's last A1c"."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from archqa.query.questions.everyday.marks import Mark
from archqa.query.questions.everyday.vocabulary import Vocabulary
from archqa.query.questions.lexer import Token, words_of
from archqa.terminology import people

_OF_THE_ASKER = frozenset({"my", "our"})
_OF_THE_PATIENT = frozenset({"her", "his", "their"})
_ADJECTIVES = frozenset({"little", "elderly", "late", "dear", "poor", "old"})


class _Relative(NamedTuple):
    """The words for a relative, the gender that they tell, and whether they need no "my"."""

    words: tuple[str, ...]
    gender: str
    stands_alone: bool


def relatives(tokens: Sequence[Token], vocabulary: Vocabulary) -> Iterator[Mark]:
    """The words that stand for the patient as a relative of who asks.

    None if the patient is of another gender, if the record tells of the patient's own family, or
    if several relatives are named: then somebody else may be meant.
    """
    found = list(_found(tokens))
    if not found or len({mark.value for mark, _ in found}) > 1:
        return
    if vocabulary.has_family_history:
        return
    for mark, gender in found:
        if gender in {"any", vocabulary.gender}:
            yield mark


def _found(tokens: Sequence[Token]) -> Iterator[tuple[Mark, str]]:
    """Each relative, with the gender."""
    start = 0
    while start < len(tokens):
        relative = _relative_at(tokens, start)
        if relative is None:
            start += 1
            continue
        end = start + len(relative.words)
        opening = _opening(tokens, start)
        if opening is not None and (opening < start or relative.stands_alone):
            value = f"relative {relative.words[0]}"
            yield Mark("person_name", value, opening, end), relative.gender
        start = end


def _relative_at(tokens: Sequence[Token], start: int) -> _Relative | None:
    for relative in _relatives():
        texts = tuple(token.text for token in tokens[start : start + len(relative.words)])
        if texts == relative.words:
            return relative
    return None


def _opening(tokens: Sequence[Token], start: int) -> int | None:
    """Where "my" before a relative stands; the relative itself without it; None of "her mother"."""
    place = start
    while place and tokens[place - 1].text in _ADJECTIVES:
        place -= 1
    before = tokens[place - 1].text if place else ""
    if before in _OF_THE_PATIENT:
        return None
    return place - 1 if before in _OF_THE_ASKER else start


@cache
def _relatives() -> tuple[_Relative, ...]:
    """The relatives of the terminology, those of several words first."""
    named = [
        _Relative(words_of(relative.form), relative.gender, relative.stands_alone)
        for relative in people.relatives()
    ]
    return tuple(sorted(named, key=lambda each: (-len(each.words), not each.stands_alone)))
