"""Limits on requests: how many are in flight, and how many requests and tokens may start in a
minute.

What a server asks for applies to all later requests: `Retry-After` (RFC 9110, 10.2.3) and the
`x-ratelimit-…` headers (OpenAI API reference, "Rate limits").
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping

from archqa.llm.model import Model, Reply, Request, TransientError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

MAX_RETRY_AFTER_SECONDS = 600.0
"""A server that asks for a longer pause is asked again after this one, and may refuse again."""


class RateBucket:
    """Spreads amounts evenly at `per_minute`; None sets no limit."""

    def __init__(self, per_minute: float | None) -> None:
        self._seconds_per_unit = 60.0 / per_minute if per_minute else 0.0
        self._free_at = 0.0

    def reserve(self, amount: float, now: float) -> float:
        """Reserve the next free moment for `amount`; returns the seconds until then."""
        start = max(now, self._free_at)
        self._free_at = start + amount * self._seconds_per_unit
        return start - now


class RateLimiter:
    """Limits requests in flight, first come, first served, and the rates that were set or that a
    server asked for.
    """

    def __init__(
        self,
        jobs: int,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.slots = asyncio.Semaphore(jobs)
        self._requests = RateBucket(requests_per_minute)
        self._tokens = RateBucket(tokens_per_minute)
        self._blocked_until = 0.0
        self._clock = clock
        self._sleep = sleep

    async def wait_for_rate_limit(self, tokens: int) -> None:
        """Wait until a request of so many tokens may start."""
        wait = self.reserve(tokens)
        while wait > 0:
            await self._sleep(wait)
            wait = self.seconds_blocked()  # A server may have asked for a pause meanwhile.

    def reserve(self, tokens: int) -> float:
        """Reserve the next free moment for a request of so many tokens; returns the seconds until
        then.
        """
        now = self._clock()
        return max(
            self._requests.reserve(1, now),
            self._tokens.reserve(tokens, now),
            self._blocked_until - now,
        )

    def seconds_blocked(self) -> float:
        """Seconds until a server accepts requests again; 0 or less if it does now."""
        return self._blocked_until - self._clock()

    def block_for(self, seconds: float) -> None:
        """Start no request for so long, at most `MAX_RETRY_AFTER_SECONDS`."""
        until = self._clock() + min(seconds, MAX_RETRY_AFTER_SECONDS)
        self._blocked_until = max(self._blocked_until, until)

    def apply_rate_limit_headers(self, headers: Mapping[str, str]) -> None:
        """Block while a server says that none of this minute's requests or tokens remain."""
        for kind in ("requests", "tokens"):
            if headers.get(f"x-ratelimit-remaining-{kind}") == "0":
                self.block_for(_parse_seconds(headers.get(f"x-ratelimit-reset-{kind}", "")))


class RateLimitedModel:
    """Sends a request when the limiter has a slot and a moment for it."""

    def __init__(self, inner: Model, limiter: RateLimiter) -> None:
        self._inner = inner
        self._limiter = limiter

    async def ask(self, request: Request) -> Reply:
        """Answer one request when its turn comes."""
        async with self._limiter.slots:
            await self._limiter.wait_for_rate_limit(request.tokens)
            try:
                return await self._inner.ask(request)
            except TransientError as fault:
                if fault.retry_after is not None:
                    self._limiter.block_for(fault.retry_after)
                raise


def _parse_seconds(duration: str) -> float:
    """`6m0s`, `20ms` or a bare number of seconds."""
    parts = _DURATION.findall(duration)
    if parts:
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if duration.replace(".", "", 1).isdigit():
        return float(duration)
    return 0.0
