"""The cases that wait for a worker: fresh ones as they are read, and those whose worker died."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable

from archqa.core.question import Item

ShardIndex = int | None
"""The part of a record that a case needs; None if any worker will do."""

MAX_WORKER_DEATHS = 3
"""That one case may cost: then the case is held to be what kills them."""


class CaseQueue:
    """Deals cases out, one at a time, to whoever asks. `over` is set when the last has ended."""

    def __init__(
        self, cases: Iterable[Item], shard_of: Callable[[Item], ShardIndex] = lambda _: None
    ) -> None:
        self._fresh = iter(cases)
        self._shard_of = shard_of
        self._put_by: dict[ShardIndex, deque[Item]] = {}
        self.in_progress = 0
        self._more = asyncio.Event()
        self.worker_deaths: Counter[str] = Counter()
        self.over = asyncio.Event()

    async def take(self, here: frozenset[int]) -> Item:
        """The next case for a worker that has these shards; where none is left, wait for one to come back."""
        while (case := self._next(here)) is None:
            if not self.in_progress and not any(self._put_by.values()):
                self.over.set()
            self._more.clear()
            await self._more.wait()
        self.in_progress += 1
        return case

    def end(self, case: Item) -> None:
        """The case has ended."""
        self.in_progress -= 1
        self.worker_deaths.pop(case.id, None)
        self._more.set()

    def requeue(self, case: Item, *, died: bool) -> None:
        """The case was not finished; `died` if the worker it was on did."""
        self.in_progress -= 1
        self.worker_deaths[case.id] += died
        self._put_aside(case)
        self._more.set()

    def is_suspect(self, case: Item) -> bool:
        """Whether one more death would be the last: such a case works alone, so that it is blamed for no other's."""
        return self.worker_deaths[case.id] == MAX_WORKER_DEATHS - 1

    def _next(self, here: frozenset[int]) -> Item | None:
        for shard, cases in self._put_by.items():
            if cases and (shard is None or shard in here):
                return cases.popleft()
        for case in self._fresh:
            shard = self._shard_of(case)
            if shard is None or shard in here:
                return case
            self._put_aside(case)
        return None

    def _put_aside(self, case: Item) -> None:
        self._put_by.setdefault(self._shard_of(case), deque()).append(case)
