"""How many requests are in flight, and how many, of how many tokens, may start in a minute.

A server's own word counts for all requests to come: `Retry-After` (RFC 9110, 10.2.3) and the `x-ratelimit-…` headers
(OpenAI API reference, "Rate limits").
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping

from archqa.llm.model import Model, Reply, Request, TransientError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

MAX_RETRY_AFTER_SECONDS = 600.0
"""Seconds; a server that asks to be left alone for longer is asked again all the same, and may refuse again."""


class RateBucket:
    """Lets amounts start at an even pace of `per_minute`; None sets no pace."""

    def __init__(self, per_minute: float | None) -> None:
        self._seconds_each = 60.0 / per_minute if per_minute else 0.0
        self._free_at = 0.0

    def reserve(self, amount: float, now: float) -> float:
        """Take the next free moment for `amount`; returns the seconds until then."""
        start = max(now, self._free_at)
        self._free_at = start + amount * self._seconds_each
        return start - now


class RateLimiter:
    """So many places in flight, first come, first served; and the paces that were set or that a server asked for."""

    def __init__(
        self,
        jobs: int,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.places = asyncio.Semaphore(jobs)
        self._requests = RateBucket(requests_per_minute)
        self._tokens = RateBucket(tokens_per_minute)
        self._held_until = 0.0
        self._clock = clock
        self._sleep = sleep

    async def pace(self, tokens: int) -> None:
        """Wait for the moment at which a request of so many tokens may start."""
        wait = self.reserve(tokens)
        while wait > 0:
            await self._sleep(wait)
            wait = self.held()  # Meanwhile a server may have asked for more.

    def reserve(self, tokens: int) -> float:
        """Take the next free moment for a request of so many tokens; returns the seconds until then."""
        now = self._clock()
        return max(
            self._requests.reserve(1, now),
            self._tokens.reserve(tokens, now),
            self._held_until - now,
        )

    def held(self) -> float:
        """Seconds for which a server still asks to be left alone; not above 0 if none does."""
        return self._held_until - self._clock()

    def hold(self, seconds: float) -> None:
        """Start nothing for so long, or for `MAX_RETRY_AFTER_SECONDS`."""
        self._held_until = max(
            self._held_until, self._clock() + min(seconds, MAX_RETRY_AFTER_SECONDS)
        )

    def heed(self, headers: Mapping[str, str]) -> None:
        """Hold when a server says that nothing is left of this minute's requests or tokens."""
        for kind in ("requests", "tokens"):
            if headers.get(f"x-ratelimit-remaining-{kind}") == "0":
                self.hold(_seconds(headers.get(f"x-ratelimit-reset-{kind}", "")))


class RateLimitedModel:
    """Lets a request through when the limiter has a place and a moment for it."""

    def __init__(self, inner: Model, limiter: RateLimiter) -> None:
        self._inner = inner
        self._limiter = limiter

    async def ask(self, request: Request) -> Reply:
        """Answer one request in its turn."""
        async with self._limiter.places:
            await self._limiter.pace(request.tokens)
            try:
                return await self._inner.ask(request)
            except TransientError as fault:
                if fault.retry_after is not None:
                    self._limiter.hold(fault.retry_after)
                raise


def _seconds(duration: str) -> float:
    """`6m0s`, `20ms` or a bare number of seconds."""
    parts = _DURATION.findall(duration)
    if parts:
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return float(duration) if duration.replace(".", "", 1).isdigit() else 0.0
