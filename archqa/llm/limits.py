"""Limits on requests: how many are in flight, how many requests and tokens may start in a minute,
how often a request is repeated, and what all of them may cost.

What a server asks for applies to all later requests: `Retry-After` (RFC 9110, 10.2.3) and the
`x-ratelimit-…` headers (OpenAI API reference, "Rate limits").
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol

from archqa.core.usage import Usage
from archqa.errors import BudgetExceeded, ServerUnavailable
from archqa.llm.model import Model, Reply, Request, TransientError

_DURATION = re.compile(r"(?<!\d)(\d++(?:\.\d++)?)(ms|h|m|s)")
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
            wait = (
                self.seconds_blocked()
            )  # A server may have asked for a pause meanwhile.

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
                # `6m0s`, `20ms` or a bare number of seconds.
                duration = headers.get(f"x-ratelimit-reset-{kind}", "")
                seconds = 0.0
                for number, unit in _DURATION.findall(duration):
                    seconds += float(number) * _SECONDS[unit]
                if duration.replace(".", "", 1).isdigit():
                    seconds = float(duration)
                self.block_for(seconds)


class RateLimitedModel(NamedTuple):
    """Sends a request when the limiter has a slot and a moment for it."""

    inner: Model
    limiter: RateLimiter

    async def ask(self, request: Request) -> Reply:
        """Answer one request when its turn comes."""
        async with self.limiter.slots:
            await self.limiter.wait_for_rate_limit(request.tokens)
            try:
                return await self.inner.ask(request)
            except TransientError as fault:
                if fault.retry_after is not None:
                    self.limiter.block_for(fault.retry_after)
                raise


class CallTally:
    """The model calls of this process, for what a command shows while it waits.

    Replies from a cache are not among them.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin to count."""
        self.pending = 0
        self.repeated = 0
        self.usage = Usage()


call_tally = CallTally()


class RetryingModel(NamedTuple):
    """Makes up to `tries` attempts with growing, jittered waits in seconds; then raises
    `ServerUnavailable`.
    """

    inner: Model
    tries: int = 5
    first_wait: float = 0.5
    max_wait: float = 30.0

    async def ask(self, request: Request) -> Reply:
        """Answer one request, after retries if need be."""
        import stamina  # Slow to import, and not every command calls a server.

        attempts = stamina.retry_context(
            on=_retry_wait,
            attempts=self.tries,
            timeout=None,
            wait_initial=self.first_wait,
            wait_max=self.max_wait,
            wait_jitter=self.first_wait,
        )
        attempt_count = 0
        call_tally.pending += 1
        try:
            async for attempt in attempts:
                attempt_count = attempt.num
                call_tally.repeated += attempt_count > 1
                with attempt:
                    reply = await self.inner.ask(request)
                    call_tally.usage += reply.usage
                    return reply
        except TransientError as fault:
            raise ServerUnavailable(
                f"The model's server failed {attempt_count} times; the last time: {fault}.\n"
                "Check --base-url and whether the server runs, and try again later."
            ) from None
        finally:
            call_tally.pending -= 1
        raise AssertionError("the loop returns or raises")


def _retry_wait(error: Exception) -> bool | float:
    """Whether to retry, or the seconds to wait where the server named them."""
    if not isinstance(error, TransientError):
        return False
    if error.retry_after is None:
        return True
    if error.retry_after > MAX_RETRY_AFTER_SECONDS:
        return False
    return error.retry_after


class BudgetProtocol(Protocol):
    """A spending limit: of this process, or shared by several."""

    async def check(self, model: str) -> None:
        """Raise `BudgetExceeded` if the limit is reached, or if spending cannot be known."""
        ...

    async def add(self, usage: Usage) -> None:
        """Count the usage of a reply."""
        ...


class Budget:
    """The limit and the spending of all models of a run, or of several runs, together.

    `limit_usd` is in US dollars; None sets no limit. `advice` says how to go on when it is spent.
    """

    def __init__(
        self,
        limit_usd: float | None,
        advice: str = "Raise the setting max_cost.",
    ) -> None:
        self._limit_usd = limit_usd
        self._advice = advice
        self._usage = Usage()

    async def check(self, model: str) -> None:
        """Raise `BudgetExceeded` if the limit is reached, or if spending cannot be known."""
        if self._limit_usd is None:
            return
        spent = self._usage.cost_usd
        if spent is None:
            raise BudgetExceeded(
                f"The price of {model} is not known, so max_cost cannot be kept.\n"
                "Set it in the configuration ([prices]) or set no max_cost."
            )
        if spent >= self._limit_usd:
            raise BudgetExceeded(
                f"The budget of ${self._limit_usd:.2f} is spent (${spent:.4f}).\n{self._advice}"
            )

    async def add(self, usage: Usage) -> None:
        """Count the usage of a reply."""
        self._usage += usage


class BudgetedModel(NamedTuple):
    """Asks only while the budget lasts; replies to requests already sent still count."""

    inner: Model
    budget: BudgetProtocol

    async def ask(self, request: Request) -> Reply:
        """Answer one request. Raises `BudgetExceeded`."""
        await self.budget.check(request.model)
        reply = await self.inner.ask(request)
        await self.budget.add(reply.usage)
        return reply
