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
        sums = {}
        for name in Usage.model_fields.keys() - {"cost_usd"}:
            sums[name] = getattr(self, name) + getattr(addend, name)
        return Usage(**sums, cost_usd=cost)


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """The sum of many usages."""
    return sum(usages, Usage())
