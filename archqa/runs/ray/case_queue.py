"""The cases that wait for a worker: new ones as they are read, and those whose worker died."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable

from archqa.core.question import Item

ShardIndex = int | None
"""The shard of the record that a case needs; None if any worker will do."""

MAX_WORKER_DEATHS = 3
"""Workers that may die while they run one case; then the case is recorded as failed."""


class CaseQueue:
    """Hands out cases one at a time. `over` is set when the last case has ended."""

    def __init__(
        self, cases: Iterable[Item], shard_of: Callable[[Item], ShardIndex] = lambda _: None
    ) -> None:
        self._new_cases = iter(cases)
        self._shard_of = shard_of
        self._waiting: dict[ShardIndex, deque[Item]] = {}
        self.in_progress = 0
        self._changed = asyncio.Event()
        self.worker_deaths: Counter[str] = Counter()
        self.over = asyncio.Event()

    async def take(self, shards: frozenset[int]) -> Item:
        """Return the next case for a worker with these shards; wait for one if there is none."""
        while (case := self._next(shards)) is None:
            if not self.in_progress and not any(self._waiting.values()):
                self.over.set()
            self._changed.clear()
            await self._changed.wait()
        self.in_progress += 1
        return case

    def end(self, case: Item) -> None:
        """Count a case as ended."""
        self.in_progress -= 1
        self.worker_deaths.pop(case.id, None)
        self._changed.set()

    def requeue(self, case: Item, *, died: bool) -> None:
        """Put back a case that did not end; `died` if its worker died while running it."""
        self.in_progress -= 1
        if died:
            self.worker_deaths[case.id] += 1
        self._put(case)
        self._changed.set()

    def is_suspect(self, case: Item) -> bool:
        """Whether one more death is the last.

        Such a case runs alone, so that no other case can cause the death.
        """
        return self.worker_deaths[case.id] == MAX_WORKER_DEATHS - 1

    def _next(self, shards: frozenset[int]) -> Item | None:
        for shard, cases in self._waiting.items():
            if cases and (shard is None or shard in shards):
                return cases.popleft()
        for case in self._new_cases:
            shard = self._shard_of(case)
            if shard is None or shard in shards:
                return case
            self._put(case)
        return None

    def _put(self, case: Item) -> None:
        self._waiting.setdefault(self._shard_of(case), deque()).append(case)
