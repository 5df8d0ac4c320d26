"""How many requests are in flight at once."""

import asyncio

from archqa.llm.base import Model, Reply, Request


class LimitedModel:
    """Lets at most `jobs` requests through at a time, first come first served."""

    def __init__(self, inner: Model, jobs: int) -> None:
        self._inner = inner
        self._places = asyncio.Semaphore(jobs)

    async def ask(self, request: Request) -> Reply:
        """Answer one request when a place is free."""
        async with self._places:
            return await self._inner.ask(request)
