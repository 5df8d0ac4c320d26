"""The mind of a dry run: renders and counts every prompt, asks nobody.

A reply that the cache holds is used as it is. Elsewhere the embedded engine's output stands in for the model's, so that
later prompts have about the length they will have.
"""

from typing import NamedTuple, TypeVar

from archqa.agents.base import Agent, Desk, Mind
from archqa.agents.model_mind import ModelMind
from archqa.core.value import Value
from archqa.llm.base import Reply, Request
from archqa.llm.cache import Cache

Task = TypeVar("Task", bound=Value)
Output = TypeVar("Output", bound=Value)


class Rehearsed(NamedTuple):
    """One call that would be made, or would be answered from the cache. Characters, not tokens."""

    agent: str
    request: Request
    reply_characters: int
    cached: bool


class RehearsalMind:
    """Performs the agents of one case without a model; each call it would make is appended to `calls`."""

    kind = "rehearsal"

    def __init__(self, mind: ModelMind, stand_in: Mind, cache: Cache | None, calls: list[Rehearsed]) -> None:
        self._mind = mind
        self._stand_in = stand_in
        self._cache = cache
        self._calls = calls

    async def perform(self, agent: Agent[Task, Output], task: Task, desk: Desk) -> Output:
        """Perform one task as the model did before, else as the embedded engine does."""
        request = self._mind.first_request(agent, task)
        kept = self._cache.get(request.digest) if self._cache is not None else None
        output = self._mind.read(agent, task, kept) if kept else None
        if output is None:
            kept, output = None, await self._stand_in.perform(agent, task, desk)
        self._calls.append(Rehearsed(agent.name, request, _length(kept, output), kept is not None))
        return output


def _length(kept: Reply | None, output: Value) -> int:
    return len(kept.text) if kept else len(output.model_dump_json(exclude_none=True))
