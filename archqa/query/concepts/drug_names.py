"""Names of drugs: ingredients, their other names, and brands."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from archqa.core.tables import read_rows, split_cell

DISPLAY_ONLY = "display"


class Drug(NamedTuple):
    """A drug by its ingredients, the phrases that name it in a question, all its names."""

    name: str
    ingredients: tuple[str, ...]
    phrases: tuple[str, ...]
    names: tuple[str, ...]
    rxnorm: str = ""


@cache
def read_drugs() -> tuple[Drug, ...]:
    """Return the single ingredients, then the combinations that a brand stands for."""
    brands = _brands_by_ingredients()
    single = tuple(_single_drugs(brands))
    return (*single, *_combinations(brands))


class _Brand(NamedTuple):
    name: str
    display_only: bool


def _single_drugs(brands: dict[tuple[str, ...], list[_Brand]]) -> Iterator[Drug]:
    rows = {row[0]: row for row in read_rows("query/concepts/data/ingredients.tsv", 4, optional=1)}
    for name in dict.fromkeys((*_ingredients_of_classes(), *rows, *_ingredients_of_brands())):
        _, other_names, rxnorm, *where = rows.get(name, (name, "-", "-"))
        own_names = (name, *split_cell(other_names))
        asked_names = () if DISPLAY_ONLY in where else own_names
        of_brand = brands.get((name,), [])
        yield Drug(
            name=name,
            ingredients=(name,),
            phrases=(*asked_names, *(brand.name for brand in of_brand if not brand.display_only)),
            names=(*own_names, *(brand.name for brand in of_brand)),
            rxnorm="" if rxnorm == "-" else rxnorm,
        )


def _combinations(brands: dict[tuple[str, ...], list[_Brand]]) -> Iterator[Drug]:
    for ingredients, of_brand in brands.items():
        if len(ingredients) > 1:
            yield Drug(
                name=" / ".join(ingredients),
                ingredients=ingredients,
                phrases=tuple(brand.name for brand in of_brand if not brand.display_only),
                names=tuple(brand.name for brand in of_brand),
            )


def _brands_by_ingredients() -> dict[tuple[str, ...], list[_Brand]]:
    brands: dict[tuple[str, ...], list[_Brand]] = {}
    for name, ingredients, *where in read_rows("query/concepts/data/brands.tsv", 3, optional=1):
        brands.setdefault(split_cell(ingredients), []).append(_Brand(name, DISPLAY_ONLY in where))
    return brands


def _ingredients_of_brands() -> Iterator[str]:
    for _, ingredients, *_ in read_rows("query/concepts/data/brands.tsv", 3, optional=1):
        yield from split_cell(ingredients)


def _ingredients_of_classes() -> Iterator[str]:
    for _, _, rules, _ in read_rows("query/concepts/data/drug_classes.tsv", 4):
        for rule in split_cell(rules):
            name = rule.partition("@")[0]
            if name != "any":
                yield name
