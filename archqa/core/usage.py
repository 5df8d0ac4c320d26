"""What a piece of work cost: calls, tokens, dollars, seconds. An unknown cost is None, never 0."""

from collections.abc import Iterable

from archqa.core.value import FrozenModel


class Usage(FrozenModel):
    """Sums of model calls. `cost_usd` is None as soon as one part of it is unknown."""

    calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            calls=self.calls + other.calls,
            cached_calls=self.cached_calls + other.cached_calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            cached_prompt_tokens=self.cached_prompt_tokens + other.cached_prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            seconds=self.seconds + other.seconds,
        )


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """The sum of many usages."""
    return sum(usages, Usage())
