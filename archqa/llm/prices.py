"""Prices of tokens, by model, as of a date.

A model that is not listed has an unknown cost: None, never 0.
"""

import tomllib
from datetime import date
from functools import cache
from pathlib import Path

from pydantic import ConfigDict, Field

from archqa.core.value import FrozenModel

MILLION = 1_000_000


class Price(FrozenModel):
    """US dollars per million tokens; `cached` is for prompt tokens in the server's prefix cache.

    `verified` is off where nobody looked the price up at its source.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    prompt: float = Field(ge=0)
    cached: float = Field(ge=0)
    completion: float = Field(ge=0)
    as_of: date
    source: str
    verified: bool = True

    @property
    def origin(self) -> str:
        """Where the price is from, and how far it can be trusted."""
        if self.verified:
            return f"price of {self.as_of} ({self.source})"
        return f"list price of {self.as_of}, not verified ({self.source}, from memory)"

    def cost(
        self, prompt_tokens: int, cached_tokens: int, completion_tokens: int
    ) -> float:
        """Dollars for one reply; `cached_tokens` are part of `prompt_tokens`."""
        uncached_cost = (prompt_tokens - cached_tokens) * self.prompt
        cached_cost = cached_tokens * self.cached
        completion_cost = completion_tokens * self.completion
        return (uncached_cost + cached_cost + completion_cost) / MILLION


@cache
def listed_prices() -> dict[str, Price]:
    """The prices that come with archqa (`prices.toml`), by model name."""
    text = (Path(__file__).parent / "prices.toml").read_text(encoding="utf-8")
    return {
        name: Price.model_validate(row)
        for name, row in tomllib.loads(text)["models"].items()
    }
