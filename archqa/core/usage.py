"""Model usage: calls, tokens, dollars, seconds. An unknown cost is None, never 0."""

from collections.abc import Iterable

from archqa.core.value import FrozenModel


class Usage(FrozenModel):
    """Sums over model calls. `cost_usd` is None as soon as a part of it is unknown."""

    calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0

    def __add__(self, addend: "Usage") -> "Usage":
        cost: float | None = None
        if self.cost_usd is not None and addend.cost_usd is not None:
            cost = self.cost_usd + addend.cost_usd
        return Usage(
            calls=self.calls + addend.calls,
            cached_calls=self.cached_calls + addend.cached_calls,
            prompt_tokens=self.prompt_tokens + addend.prompt_tokens,
            cached_prompt_tokens=self.cached_prompt_tokens
            + addend.cached_prompt_tokens,
            completion_tokens=self.completion_tokens + addend.completion_tokens,
            cost_usd=cost,
            seconds=self.seconds + addend.seconds,
        )


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """The sum of many usages."""
    return sum(usages, Usage())
