"""The limits of a whole run, in one actor, and the proxies through which the workers use them.

The actor knows when a request may start, whether budget is left, and which requests are in flight.
The number of requests in flight is limited by each worker itself: it has a share of the run's.
"""

import asyncio
from typing import Any

from archqa.core.usage import Usage
from archqa.errors import BudgetExceeded
from archqa.llm.limits import MAX_RETRY_AFTER_SECONDS, Budget, RateLimiter
from archqa.runs.backends import SharedLimits
from archqa.settings import Settings

_SECONDS_PER_MINUTE = 62.0
"""Seconds over which a minute's requests are started.

A server counts arrivals, and network delays differ.
"""


class LimitsActor:
    """The actor: rate limits, budget and requests in flight of all workers."""

    def __init__(
        self,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        max_cost: float | None,
    ) -> None:
        self._limiter = RateLimiter(
            1, _slower(requests_per_minute), _slower(tokens_per_minute)
        )
        self._budget = Budget(max_cost)
        self._in_flight: dict[str, tuple[str, asyncio.Event]] = {}

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
        except BudgetExceeded as failure:
            return failure
        return None

    async def add(self, usage: Usage) -> None:
        """See `Budget.add`."""
        await self._budget.add(usage)

    async def acquire(self, digest: str, worker: str) -> bool:
        """See `InFlightRequests.acquire`."""
        if digest not in self._in_flight:
            self._in_flight[digest] = (worker, asyncio.Event())
            return True
        await self._in_flight[digest][1].wait()
        return False

    async def release(self, digest: str) -> None:
        """See `InFlightRequests.release`."""
        _, finished = self._in_flight.pop(digest, ("", asyncio.Event()))
        finished.set()

    async def forget(self, worker: str) -> None:
        """Release all requests in flight of a worker that is gone."""
        for digest, (owner, _) in list(self._in_flight.items()):
            if owner == worker:
                await self.release(digest)


def _slower(per_minute: int | None) -> float | None:
    if per_minute is None:
        return None
    return per_minute * 60.0 / _SECONDS_PER_MINUTE


def worker_limits(
    limits: Any, worker: str, settings: Settings, jobs: int
) -> SharedLimits:
    """Return the limits for one worker: its share of `jobs`, and the limits of the run."""
    return SharedLimits(
        SharedLimiter(limits, jobs),
        SharedBudget(limits, settings.limits.max_cost),
        _SharedInFlightRequests(limits, worker),
    )


class SharedLimiter(RateLimiter):
    """Limits requests in flight itself, and their rate through the actor.

    A server's retry-after holds for all workers.
    """

    def __init__(self, limits: Any, jobs: int) -> None:
        super().__init__(jobs)
        self._limits = limits

    async def wait_for_rate_limit(self, tokens: int) -> None:
        """Wait until a request of so many tokens may start, among all workers."""
        seconds = await self._limits.reserve.remote(tokens)
        seconds = max(self.seconds_blocked(), seconds)
        while seconds > 0:
            await self._sleep(seconds)
            seconds = await self._limits.seconds_blocked.remote()
            seconds = max(self.seconds_blocked(), seconds)

    def block_for(self, seconds: float) -> None:
        """Start no request for some seconds, here and on every other worker."""
        super().block_for(seconds)
        self._limits.block_for.remote(min(seconds, MAX_RETRY_AFTER_SECONDS))


class SharedBudget:
    """The run's budget; without a limit the actor is not called."""

    def __init__(self, limits: Any, max_cost: float | None) -> None:
        self._limits = limits
        self._limited = max_cost is not None

    async def check(self, model: str) -> None:
        """See `Budget.check`."""
        if not self._limited:
            return
        failure = await self._limits.check.remote(model)
        if failure is not None:
            raise failure

    async def add(self, usage: Usage) -> None:
        """See `Budget.add`."""
        if self._limited:
            await self._limits.add.remote(usage)


class _SharedInFlightRequests:
    """The requests in flight of all workers."""

    def __init__(self, limits: Any, worker: str) -> None:
        self._limits = limits
        self._worker = worker

    async def acquire(self, digest: str) -> bool:
        """See `InFlightRequests.acquire`."""
        return bool(await self._limits.acquire.remote(digest, self._worker))

    def release(self, digest: str) -> None:
        """See `InFlightRequests.release`."""
        self._limits.release.remote(digest)
