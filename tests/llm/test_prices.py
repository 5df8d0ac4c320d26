"""What tokens cost, where that is known."""

import re

import pytest

from archqa.llm.prices import listed_prices


def test_cached_tokens_are_a_cheaper_part_of_the_prompt() -> None:
    """gpt-4.1 at $2.00, $0.50 cached and $8.00 a million: 600,000 fresh + 400,000 cached + 100,000 said."""
    price = listed_prices()["gpt-4.1"]
    assert price.cost(1_000_000, 400_000, 100_000) == pytest.approx(1.20 + 0.20 + 0.80)
    assert price.cost(0, 0, 0) == 0


def test_every_listed_price_has_a_date_a_source_is_unverified_and_in_a_sensible_order() -> (
    None
):
    for name, price in listed_prices().items():
        assert 0 < price.cached <= price.prompt < price.completion, name
        assert price.as_of.year >= 2024, name
        assert re.match(r"https://\w+", price.source), name
        assert not price.verified, name


def test_the_papers_models_are_listed_and_others_are_simply_not() -> None:
    assert {"o3", "gpt-4.1"} <= set(listed_prices())
    assert listed_prices().get("a-model-of-ones-own") is None
