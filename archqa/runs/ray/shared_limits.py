"""The limits of the whole run, held by one actor; and how they look to a worker: like its own.

A worker asks for what must be known everywhere: the moment a request may start, whether money is left, whether another
worker is asking the same. How many requests it has in flight is its own affair: it was given its share.
"""

import asyncio
from typing import Any

from archqa.core.usage import Usage
from archqa.errors import BudgetExceeded
from archqa.llm.budget import Budget
from archqa.llm.limits import MAX_RETRY_AFTER_SECONDS, RateLimiter
from archqa.runs.backends import SharedLimits
from archqa.settings import Settings

_MINUTE = 62.0
"""Seconds in which a minute's requests start. A server counts arrivals, and the ways to it differ in length."""


class LimitsActor:
    """The actor: pace, budget and claims of all workers."""

    def __init__(
        self, requests_per_minute: int | None, tokens_per_minute: int | None, most: float | None
    ) -> None:
        self._limiter = RateLimiter(1, _slower(requests_per_minute), _slower(tokens_per_minute))
        self._budget = Budget(most)
        self._claims: dict[str, tuple[str, asyncio.Event]] = {}

    async def reserve(self, tokens: int) -> float:
        """See `RateLimiter.reserve`."""
        return self._limiter.reserve(tokens)

    async def seconds_blocked(self) -> float:
        """See `RateLimiter.seconds_blocked`."""
        return self._limiter.seconds_blocked()

    async def block_for(self, seconds: float) -> None:
        """See `RateLimiter.block_for`."""
        self._limiter.block_for(seconds)

    async def check(self, model: str) -> BudgetExceeded | None:
        """See `Budget.check`."""
        try:
            await self._budget.check(model)
        except BudgetExceeded as spent:
            return spent
        return None

    async def add(self, usage: Usage) -> None:
        """See `Budget.add`."""
        await self._budget.add(usage)

    async def acquire(self, digest: str, worker: str) -> bool:
        """See `InFlightRequests.acquire`."""
        if digest not in self._claims:
            self._claims[digest] = worker, asyncio.Event()
            return True
        await self._claims[digest][1].wait()
        return False

    async def release(self, digest: str) -> None:
        """See `InFlightRequests.release`."""
        _, over = self._claims.pop(digest, ("", asyncio.Event()))
        over.set()

    async def forget(self, worker: str) -> None:
        """A worker is gone: what it was asking, others may."""
        for digest in [each for each, (holder, _) in self._claims.items() if holder == worker]:
            await self.release(digest)


def _slower(per_minute: int | None) -> float | None:
    return per_minute * 60.0 / _MINUTE if per_minute else None


def worker_limits(limits: Any, worker: str, settings: Settings, jobs: int) -> SharedLimits:
    """The limits as one worker sees them: its own share of places, the run's pace, budget and claims."""
    return SharedLimits(
        SharedLimiter(limits, jobs),
        SharedBudget(limits, settings.limits.max_cost),
        _Claims(limits, worker),
    )


class SharedLimiter(RateLimiter):
    """Places of its own, the pace of the run; what a server asks of one worker, all heed."""

    def __init__(self, limits: Any, jobs: int) -> None:
        super().__init__(jobs)
        self._limits = limits

    async def wait_for_rate_limit(self, tokens: int) -> None:
        """Wait for the moment at which a request of so many tokens may start, among all workers."""
        wait = max(self.seconds_blocked(), await self._limits.reserve.remote(tokens))
        while wait > 0:
            await self._sleep(wait)
            wait = max(self.seconds_blocked(), await self._limits.seconds_blocked.remote())

    def block_for(self, seconds: float) -> None:
        """Start nothing for so long, here and on every other worker."""
        super().block_for(seconds)
        self._limits.block_for.remote(min(seconds, MAX_RETRY_AFTER_SECONDS))


class SharedBudget:
    """The run's budget; nobody is asked where there is none."""

    def __init__(self, limits: Any, most: float | None) -> None:
        self._limits = limits
        self._limited = most is not None

    async def check(self, model: str) -> None:
        """See `Budget.check`."""
        if self._limited and (spent := await self._limits.check.remote(model)):
            raise spent

    async def add(self, usage: Usage) -> None:
        """See `Budget.add`."""
        if self._limited:
            await self._limits.add.remote(usage)


class _Claims:
    """Who is asking what, among all workers."""

    def __init__(self, limits: Any, worker: str) -> None:
        self._limits = limits
        self._worker = worker

    async def acquire(self, digest: str) -> bool:
        """See `InFlightRequests.acquire`."""
        return bool(await self._limits.acquire.remote(digest, self._worker))

    def release(self, digest: str) -> None:
        """See `InFlightRequests.release`."""
        self._limits.release.remote(digest)
