"""A question as tokens with their offsets: words, numbers and the signs that separate its parts.

Both dialects begin with plain signs; each has its own words: the everyday dialect spells out
contractions, EHRSQL's takes letters apart from numbers.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from archqa.fhir.values.text import normalise_text
from archqa.terminology.cues import names_by_code
from archqa.terminology.matching import expand_form
from archqa.terminology.words import word_list

_SIGNS = str.maketrans(
    {
        "’": "'",
        "‘": "'",
        "`": "'",
        "“": '"',
        "”": '"',
        "–": "-",
        "—": "-",
        "−": "-",
        "\u00a0": " ",
    }
)
_LETTERS_OR_NUMBER = re.compile(r"[a-z]+|\d+(?:\.\d+)?")
_TOKEN = re.compile(
    r"[a-z0-9]+(?:\.\d+)?(?:'[a-z]+|(?<=s)'(?!\w))?|[^\sa-z0-9]", re.IGNORECASE
)
_PLAIN_PHRASE = re.compile(r"[a-z0-9 ]+")
_DOTTED = re.compile(r"(?<![a-z.])(?:[a-z]\.){2,4}(?![a-z])", re.IGNORECASE)
"""An abbreviation with dots: "E.R."; the dots become nothing, so offsets shift by them only."""

_NUMBER_OF = re.compile(r"\bno\. of\b", re.IGNORECASE)
"""An abbreviation, read as "# of"; the spaces keep the offsets."""

SEPARATORS = frozenset(",;:?!.&()-/\"'+")
"""Signs that carry nothing beyond the bounds of words."""
_OPENERS = word_list("opener")
_IS_BEFORE = _OPENERS | {"that", "there", "here", "it", "he", "she"}
_CONTRACTED = names_by_code("contracted")
_NEGATED = {"ca": "can", "wo": "will", "sha": "shall"}


class Token(NamedTuple):
    """A word in lower case, or a sign, and where it stands; parts of "what's" share one place."""

    text: str
    start: int
    end: int


def plain_signs(text: str) -> str:
    """The text with plain quotation marks, hyphens and spaces, of the same length."""
    return text.translate(_SIGNS)


def without_dots(text: str) -> str:
    """The text with "er" in place of "e.r."."""
    return _DOTTED.sub(lambda match: match.group().replace(".", ""), text)


def plain(question: str) -> str:
    """The question with plain signs and abbreviations without dots."""
    return without_dots(_NUMBER_OF.sub("#   of", plain_signs(question)))


def letters_and_numbers(text: str) -> list[Token]:
    """The tokens of a text in lower case, letters apart from numbers: "spo2" is two."""
    return [
        Token(match.group(), match.start(), match.end())
        for match in _LETTERS_OR_NUMBER.finditer(text)
    ]


def lookup_key(text: str) -> str:
    """A name for loose comparison: its words, without the signs between them."""
    return " ".join(
        word.text for word in letters_and_numbers(without_dots(normalise_text(text)))
    )


def tokenize(text: str) -> tuple[Token, ...]:
    """The tokens of a plain text; contractions in full, possessive endings dropped."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        for word in _spelled_out(match.group().lower()):
            tokens.append(Token(word, match.start(), match.end()))
    return tuple(tokens)


def words_of(phrase: str) -> tuple[str, ...]:
    """The words of a phrase of a table, as they stand in a question."""
    if _PLAIN_PHRASE.fullmatch(phrase):  # Most of 11,000 phrases: they need no tokens.
        return tuple([_UNAPOSTROPHISED.get(word, word) for word in phrase.split()])
    return tuple(
        token.text for token in tokenize(phrase) if token.text not in SEPARATORS
    )


def phrases_of(cell: str) -> Iterator[tuple[str, ...]]:
    """The phrases that a cell of a table stands for, as words; see `terminology/matching.py`."""
    for pattern in cell.split("|"):
        for form in expand_form(pattern):
            yield words_of(form)


def _spelled_out(word: str) -> Iterator[str]:
    base, apostrophe, _ = word.partition("'")
    if not apostrophe or not base:
        yield _UNAPOSTROPHISED.get(word, word)
        return
    ending = word[len(base) :]
    if ending == "'t" and base.endswith("n"):
        yield _NEGATED.get(base[:-1], base[:-1])
        yield "not"
        return
    yield base
    if ending == "'d":
        yield "did" if base in _OPENERS else "would"
    elif ending in _CONTRACTED:
        yield _CONTRACTED[ending]
    elif ending == "'s" and base in _IS_BEFORE:
        yield "is"


_UNAPOSTROPHISED = names_by_code("without apostrophe")
"""Telegraphic spellings; the "is" that they hold carries nothing."""
