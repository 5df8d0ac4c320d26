"""How many requests are in flight at once, whatever servers they go to."""

import asyncio

from archqa.llm.base import Model, Reply, Request


class Limiter:
    """So many places; first come, first served."""

    def __init__(self, jobs: int) -> None:
        self.places = asyncio.Semaphore(jobs)


class LimitedModel:
    """Lets a request through when the limiter has a place for it."""

    def __init__(self, inner: Model, limiter: Limiter) -> None:
        self._inner = inner
        self._limiter = limiter

    async def ask(self, request: Request) -> Reply:
        """Answer one request when a place is free."""
        async with self._limiter.places:
            return await self._inner.ask(request)
