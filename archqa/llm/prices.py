"""What a token costs, by model, as of a date. A model that is not listed has no known cost: None, never 0."""

import tomllib
from datetime import date
from functools import cache
from pathlib import Path

from archqa.core.value import FrozenModel

MILLION = 1_000_000


class Price(FrozenModel):
    """US dollars per million tokens; `cached` is for prompt tokens the server had already read."""

    prompt: float
    cached: float
    completion: float
    as_of: date
    source: str

    def cost(self, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> float:
        """Dollars for one reply; `cached_tokens` are part of `prompt_tokens`."""
        fresh = prompt_tokens - cached_tokens
        dollars = (
            fresh * self.prompt + cached_tokens * self.cached + completion_tokens * self.completion
        )
        return dollars / MILLION


@cache
def listed_prices() -> dict[str, Price]:
    """The table that comes with archqa (`prices.toml`), by model name."""
    text = (Path(__file__).parent / "prices.toml").read_text(encoding="utf-8")
    return {name: Price.model_validate(row) for name, row in tomllib.loads(text)["models"].items()}
