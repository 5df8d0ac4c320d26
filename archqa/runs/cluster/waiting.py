"""The cases that wait for a worker: fresh ones as they are read, and those whose worker died."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable

from archqa.core.question import Item

Shard = int | None
"""The part of a record that a case needs; None if any worker will do."""

MOST_WORKERS = 3
"""That one case may cost: then the case is held to be what kills them."""


class Waiting:
    """Deals cases out, one at a time, to whoever asks. `over` is set when the last has ended."""

    def __init__(self, cases: Iterable[Item], shard_of: Callable[[Item], Shard] = lambda _: None) -> None:
        self._fresh = iter(cases)
        self._shard_of = shard_of
        self._put_by: dict[Shard, deque[Item]] = {}
        self.under_way = 0
        self._more = asyncio.Event()
        self.deaths: Counter[str] = Counter()
        self.over = asyncio.Event()

    async def take(self, here: frozenset[int]) -> Item:
        """The next case for a worker that has these shards; where none is left, wait for one to come back."""
        while (case := self._next(here)) is None:
            if not self.under_way and not any(self._put_by.values()):
                self.over.set()
            self._more.clear()
            await self._more.wait()
        self.under_way += 1
        return case

    def end(self, case: Item) -> None:
        """The case has ended."""
        self.under_way -= 1
        self.deaths.pop(case.id, None)
        self._more.set()

    def give_back(self, case: Item, *, died: bool) -> None:
        """The case was not finished; `died` if the worker it was on did."""
        self.under_way -= 1
        self.deaths[case.id] += died
        self._put_aside(case)
        self._more.set()

    def suspect(self, case: Item) -> bool:
        """Whether one more death would be the last: such a case works alone, so that it is blamed for no other's."""
        return self.deaths[case.id] == MOST_WORKERS - 1

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
