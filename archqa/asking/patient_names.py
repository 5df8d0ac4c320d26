"""Whether a person's name as it is typed is the name of a patient: whole words, never a guess.

Case, accents, apostrophes and hyphens do not matter. Words may be left out, in their order: "Maria
Lopez" is "María Elena López". Source of the parts: hl7.org/fhir/R4/datatypes.html#HumanName.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from archqa.fhir.values.text import normalise_text

_APOSTROPHES = re.compile("['’ʼ`]")
_BETWEEN_WORDS = re.compile("[\\s.,\\-\u2010-\u2015]+")
_BETWEEN_PIECES = re.compile("[\\s.,\\-\u2010-\u2015'’ʼ`]+")

_SERIAL_NUMBER = re.compile(r"(?<=[^\W\d_])\d+$")
"""The digits after the names of synthetic patients ("Maria123"): github.com/synthetichealth."""

_GENDER_OF_TITLE = {
    "mr": "male",
    "sir": "male",
    "mrs": "female",
    "ms": "female",
    "miss": "female",
    "dame": "female",
    "mx": "",
    "dr": "",
    "prof": "",
}
"""Titles before a name, and the gender that they tell; no part of the name."""

Words = tuple[str, ...]


class AskedName(NamedTuple):
    """A name as it was typed: all its words, and how "Family, Given" divides them.

    `family` and `given` are empty if no comma divides them. `gender` is what a title tells.
    To search for the patient there is the beginning of each word, and the longest piece of it that
    is written in one way.
    """

    words: Words
    family: Words
    given: Words
    gender: str
    beginnings: Words
    pieces: Words


def read_name(text: str) -> AskedName | None:
    """Return the words of a typed name, in the order "Given Family"; None if there are none."""
    before, comma, after = text.partition(",")
    family = _read_part(before)
    given = _read_part(after.replace(",", " "))
    words = (*given.words, *family.words)
    if not words:
        return None
    return AskedName(
        words=words,
        family=family.words if comma else (),
        given=given.words if comma else (),
        gender=family.gender or given.gender,
        beginnings=(*given.beginnings, *family.beginnings),
        pieces=(*given.pieces, *family.pieces),
    )


class _Part(NamedTuple):
    """The words of a name before or after its comma."""

    words: Words
    gender: str
    beginnings: Words
    pieces: Words


def _read_part(text: str) -> _Part:
    """Read a part without its title; a title that stands alone is a name."""
    tokens = [token for token in text.split() if _words(token)]
    title = _words(tokens[0]) if len(tokens) > 1 else ()
    gender = ""
    if len(title) == 1 and title[0] in _GENDER_OF_TITLE:
        gender = _GENDER_OF_TITLE[title[0]]
        tokens = tokens[1:]
    beginnings = [_pieces(token, _BETWEEN_WORDS)[0] for token in tokens]
    pieces = [max(_pieces(token, _BETWEEN_PIECES), key=len) for token in tokens]
    return _Part(_words(*tokens), gender, tuple(beginnings), tuple(pieces))


def _pieces(token: str, between: re.Pattern[str]) -> list[str]:
    """Return the pieces of a token that has any, as it was typed."""
    return list(filter(None, between.split(token))) or [token]


def has_name(patient: Mapping[str, Any], asked: AskedName) -> bool:
    """Whether one of the names of a Patient resource is the name that was typed."""
    gender = patient.get("gender")
    if asked.gender and gender in ("male", "female") and gender != asked.gender:
        return False
    names = patient.get("name")
    names = names if isinstance(names, list) else []
    return any(_fits(name, asked) for name in names if isinstance(name, Mapping))


def _fits(name: Mapping[str, Any], asked: AskedName) -> bool:
    given = _words(*_texts(name.get("given")))
    family = _words(*_texts(name.get("family")))
    suffix = _words(*_texts(name.get("suffix")))
    if not given and not family:
        return any(_in_order(asked.words, _of_text(text)) for text in _texts(name.get("text")))
    if asked.family or asked.given:
        fits_family = _in_order(asked.family, (*family, *suffix))
        return fits_family and _in_order(asked.given, (*given, *suffix))
    return _in_order(asked.words, (*given, *family, *suffix))


def _of_text(text: str) -> Words:
    """Return the words of a name that the record has as one text, in the order "Given Family"."""
    name = read_name(text)
    return name.words if name else ()


def _texts(value: Any) -> Iterable[str]:
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str)]


def _words(*texts: str) -> Words:
    words: list[str] = []
    for text in texts:
        plain = _APOSTROPHES.sub("", normalise_text(text))
        words += filter(None, _BETWEEN_WORDS.split(plain))
    return tuple(words)


def _in_order(asked: Sequence[str], words: Sequence[str]) -> bool:
    """Whether all asked words are among the words, in the same order."""
    rest = iter(words)
    return all(any(_is_same(word, other) for other in rest) for word in asked)


def _is_same(asked: str, word: str) -> bool:
    return asked == word or asked == _SERIAL_NUMBER.sub("", word)
