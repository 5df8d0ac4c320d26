"""Ingredient names in the display of a medicine."""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from archqa.core.tables import read_rows
from archqa.query.concepts.display_words import single_words, word_sets
from archqa.query.concepts.drug_names import read_drugs
from archqa.query.concepts.words import stems

_BRAND_IN_BRACKETS = re.compile(r"\[[^\]]*\]")
_STRENGTH = r"\d[\d.,]*\s*(?:MG|MCG|UG|G|UNT|MEQ|MMOL|%)(?!\w)"
_FIRST_QUANTITIES = (
    r"(?:NDA\d+\s+|(?:\d[\d.]*\s+(?:HR|ML|ACTUAT|MG)\s+)|(?:Abuse-Deterrent|Preservative-Free|"
    r"Breath-Actuated)\s+)*"
)
_UNKNOWN_INGREDIENT = re.compile(
    rf"^\s*{_FIRST_QUANTITIES}(?P<name>[A-Za-z][A-Za-z ,'-]*?)\s+{_STRENGTH}"
)
"""The name in front of a strength, by the naming rules of RxNorm's clinical drugs."""


class _NameIndex(NamedTuple):
    """Ingredients by the words of a name; the most words that a name has."""

    ingredients: dict[str, tuple[str, ...]]
    longest: int


@lru_cache(maxsize=16384)
def ingredients_of(display: str) -> tuple[str, ...]:
    """Return the ingredients that the display of a medicine names, each once, in its order.

    Brands are resolved, salts left out; a brand in brackets counts only where no ingredient
    stands outside of them. A name that the tables lack is returned where it stands in front of
    a strength, as RxNorm writes it; of any other unknown display, nothing.
    """
    outside_brackets = _BRAND_IN_BRACKETS.sub(" ", display)
    return _in_parts(outside_brackets) or _known_names(stems(display))


@lru_cache(maxsize=16384)
def has_form(display: str, form: str) -> bool:
    """Tell whether a display names a form of `forms.tsv`, as `ophthalmic`."""
    words = frozenset(stems(display))
    return any(alternative <= words for alternative in _forms()[form])


def _in_parts(display: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for part in display.split(" / "):
        names = _known_names(stems(part)) or _unknown_name(part)
        found.update(dict.fromkeys(names))
    return tuple(found)


def _known_names(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ingredients of the names in `words`, the longest names first."""
    index = _name_index()
    found: dict[str, None] = {}
    place = 0
    while place < len(words):
        for length in range(min(index.longest, len(words) - place), 0, -1):
            names = index.ingredients.get(" ".join(words[place : place + length]))
            if names:
                found.update(dict.fromkeys(names))
                break
        place += length
    return tuple(found)


def _unknown_name(part: str) -> tuple[str, ...]:
    match = _UNKNOWN_INGREDIENT.match(part)
    if not match:
        return ()
    words = match["name"].lower().split()
    while len(words) > 1 and words[-1].strip(",") in single_words("salt"):
        words.pop()
    return (" ".join(words),)


@cache
def _name_index() -> _NameIndex:
    index: dict[str, tuple[str, ...]] = {}
    for drug in read_drugs():
        for name in drug.names:
            index.setdefault(" ".join(stems(name)), drug.ingredients)
    return _NameIndex(index, max(name.count(" ") for name in index) + 1)


@cache
def _forms() -> dict[str, tuple[frozenset[str], ...]]:
    return {form: word_sets(words) for form, words in read_rows("query/concepts/data/forms.tsv", 2)}
