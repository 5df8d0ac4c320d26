"""Drugs: their ingredients, brands and other names, and the ingredients that a display names."""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from archqa.core.tables import EMPTY, read_rows, split_cell
from archqa.terminology.concept import Forms, read_forms
from archqa.terminology.matching import Reading, WordMatcher
from archqa.terminology.words import (
    common_forms,
    display_word_sets,
    single_display_words,
)

ANY_INGREDIENT = "any"

_JOINT = " / "
_BRAND_IN_BRACKETS = re.compile(r"\[[^\]]{0,200}\]")
_STRENGTH = r"\d[\d.,]*\s*(?:MG|MCG|UG|G|UNT|MEQ|MMOL|%)(?!\w)"
_FIRST_QUANTITIES = (
    r"(?:NDA\d+\s+|(?:\d[\d.]*\s+(?:HR|ML|ACTUAT|MG)\s+)|(?:Abuse-Deterrent|Preservative-Free|"
    r"Breath-Actuated)\s+){0,6}"
)
_UNKNOWN_INGREDIENT = re.compile(
    rf"^\s*{_FIRST_QUANTITIES}(?P<name>[A-Za-z](?:[A-Za-z ,'-]*?[A-Za-z,'-])?)\s++{_STRENGTH}"
)
"""The name in front of a strength, by the naming rules of RxNorm's clinical drugs."""


class Drug(NamedTuple):
    """A drug by its ingredients, the names that questions use, and all its names."""

    name: str
    ingredients: tuple[str, ...]
    forms: Forms
    names: tuple[str, ...]
    rxnorm: str
    """The cell of the table."""


@cache
def read_drugs() -> tuple[Drug, ...]:
    """Return the single ingredients, then the combinations that a brand stands for."""
    rows = {}
    for _, _, rules, _ in read_rows("terminology/data/drug_classes.tsv", 4):
        for rule in split_cell(rules):
            ingredient = rule.partition("@")[0]
            if ingredient != ANY_INGREDIENT:
                rows[ingredient] = (EMPTY, EMPTY)
    for name, cell, rxnorm in read_rows("terminology/data/drugs.tsv", 3):
        rows[name] = (cell, rxnorm)
    drugs = []
    for name, (cell, rxnorm) in rows.items():
        ingredients = tuple(name.split(_JOINT))
        forms = read_forms(cell)
        # A single ingredient is called by its name unless a mark says otherwise.
        if len(ingredients) == 1 and name not in forms.display_only:
            forms = forms._replace(asked=tuple(dict.fromkeys((name, *forms.asked))))
        names = (*forms.display_only, *forms.asked)
        drugs.append(Drug(name, ingredients, forms, names, rxnorm))
    return tuple(drugs)


@lru_cache(maxsize=16384)
def ingredients_of(display: str) -> tuple[str, ...]:
    """Return the ingredients that the display of a medicine names, each once, in its order.

    Brands are resolved, salts left out; a brand in brackets counts only where no ingredient
    stands outside of them. A name that the tables lack is returned where it stands in front of
    a strength, as RxNorm writes it; of any other unknown display, nothing.
    """
    outside_brackets = _BRAND_IN_BRACKETS.sub(" ", display)
    ingredients: dict[str, None] = {}
    for part in outside_brackets.split(_JOINT):
        names = _known_ingredients(part) or _unknown_ingredient(part)
        ingredients.update(dict.fromkeys(names))
    return tuple(ingredients) or _known_ingredients(display)


@lru_cache(maxsize=16384)
def has_form(display: str, form: str) -> bool:
    """Tell whether a display names a dose form of `display_words.tsv`, as `ophthalmic`."""
    words = frozenset(common_forms(display))
    return any(
        alternative <= words for alternative in display_word_sets(f"form {form}")
    )


def _known_ingredients(text: str) -> tuple[str, ...]:
    """Return the ingredients of the names in a text, the longest names first."""
    ingredients: dict[str, None] = {}
    for match in _name_matcher().find(text):
        ingredients.update(dict.fromkeys(match.value))
    return tuple(ingredients)


def _unknown_ingredient(part: str) -> tuple[str, ...]:
    match = _UNKNOWN_INGREDIENT.match(part)
    if not match:
        return ()
    words = match["name"].lower().split()
    while len(words) > 1 and words[-1].strip(",") in single_display_words("salt"):
        words.pop()
    return (" ".join(words),)


@cache
def _name_matcher() -> WordMatcher[tuple[str, ...]]:
    """Return the matcher of all names; of two drugs with one name, the first counts."""
    known: set[tuple[str, ...]] = set()
    matcher: WordMatcher[tuple[str, ...]] = WordMatcher(Reading.DISPLAY)
    for drug in read_drugs():
        for name in drug.names:
            words = common_forms(name)
            if words not in known:
                known.add(words)
                matcher.add(drug.ingredients, (name,))
    return matcher
