"""The mind of a dry run: renders and counts every prompt, asks nobody.

A reply that the cache holds is used as it is. Elsewhere the embedded engine's output stands in for the model's, so that
later prompts have about the length they will have.
"""

from typing import NamedTuple, TypeVar

from archqa.agents.agent import Agent, Backend, RunContext
from archqa.agents.model_backend import ModelBackend
from archqa.core.value import FrozenModel
from archqa.errors import Unusable
from archqa.llm.cache import ReplyCache
from archqa.llm.model import Message, Reply, Request, ToolSpec

Task = TypeVar("Task", bound=FrozenModel)
Output = TypeVar("Output", bound=FrozenModel)


class DryRunCall(NamedTuple):
    """One call that would be made, or would be answered from the cache. Characters, not tokens."""

    agent: str
    request: Request
    reply_characters: int
    cached: bool


class DryRunBackend:
    """Performs the agents of one case without a model; each call it would make is appended to `calls`."""

    kind = "rehearsal"

    def __init__(
        self,
        mind: ModelBackend,
        stand_in: Backend,
        cache: ReplyCache | None,
        calls: list[DryRunCall],
    ) -> None:
        self._mind = mind
        self._stand_in = stand_in
        self._cache = cache
        self._calls = calls

    async def perform(self, agent: Agent[Task, Output], task: Task, desk: RunContext) -> Output:
        """Perform one task as the model did before, else as the embedded engine does."""
        request = self._mind.first_request(agent, task)
        kept = self._cache.get(request.digest) if self._cache is not None else None
        output = self._mind.read(agent, task, kept) if kept else None
        if output is None:
            kept, output = None, await self._stand_in.perform(agent, task, desk)
        self._calls.append(DryRunCall(agent.name, request, _length(kept, output), kept is not None))
        return output

    def opening(self, agent: Agent[Task, Output], task: Task) -> tuple[Message, ...]:
        """What a conversation begins with."""
        return self._mind.opening(agent, task)

    def words(self, template: str) -> str:
        """A fixed text out of the prompts."""
        return self._mind.words(template)

    async def say(
        self,
        agent: Agent[Task, Output],
        task: Task,
        desk: RunContext,
        messages: tuple[Message, ...],
        tools: tuple[ToolSpec, ...] = (),
        recorded: int = 0,
    ) -> Reply:
        """The turn as it was taken before; a conversation is rehearsed as far as that. Raises `Unusable` there."""
        request = self._mind.conversation_request(messages, tools)
        kept = self._cache.get(request.digest) if self._cache is not None else None
        self._calls.append(
            DryRunCall(agent.name, request, len(kept.text) if kept else 0, kept is not None)
        )
        if kept is None:
            raise Unusable(
                "Nobody is asked in a rehearsal; how a conversation goes on cannot be foreseen."
            )
        return kept


def _length(kept: Reply | None, output: FrozenModel) -> int:
    return len(kept.text) if kept else len(output.model_dump_json(exclude_none=True))
