"""The backend of a dry run: renders and counts every prompt, asks no model.

A reply in the cache is used as it is. Elsewhere the embedded engine's output stands in for the
model's, so that later prompts have about the length they will have.
"""

from dataclasses import dataclass
from typing import NamedTuple

from archqa.agents.agent import (
    Agent,
    Backend,
    Output,
    RenderingBackend,
    RunContext,
    Task,
)
from archqa.agents.model_backend import ModelBackend
from archqa.errors import CaseFailed, Unusable
from archqa.llm.cache import ServerCache
from archqa.llm.model import Message, Reply, Request, ToolSpec
from archqa.llm.prompts import Prompts


class DryRunCall(NamedTuple):
    """One call that would be made, or would be answered from the cache. Characters, not tokens.

    `server` identifies the server that would be asked.
    """

    agent: str
    request: Request
    reply_characters: int
    cached: bool
    server: str = ""


@dataclass
class DryRunBackend(RenderingBackend):
    """Runs the agents of one case without a model; appends each call it would make to `calls`.

    `cache` has the replies of the server that `model` would ask; None without a cache. `server`
    identifies that server.
    """

    kind = "dry run"

    model: ModelBackend
    stand_in: Backend
    cache: ServerCache | None
    calls: list[DryRunCall]
    server: str = ""

    async def run(
        self, agent: Agent[Task, Output], task: Task, context: RunContext
    ) -> Output:
        """The output of the cached reply, else that of the embedded engine.

        The call counts also where nothing can stand in for its reply, which raises `CaseFailed`.
        """
        request = self.model.request(agent, task)
        reply = self._cached_reply(request)
        output = (
            self.model.parse_reply(agent, task, reply) if reply is not None else None
        )
        if reply is not None and output is not None:
            self._count(agent.name, request, len(reply.text), cached=True)
            return output
        try:
            output = await self.stand_in.run(agent, task, context)
        except CaseFailed:
            self._count(agent.name, request, 0, cached=False)
            raise
        characters = len(output.model_dump_json(exclude_none=True))
        self._count(agent.name, request, characters, cached=False)
        return output

    def prompt_name(self, agent: Agent[Task, Output]) -> str:
        """The prompt version that the model would be shown."""
        return self.model.prompt_name(agent)

    def prompts_of(self, agent: Agent[Task, Output]) -> Prompts:
        """The folder that the model's prompts would be rendered from."""
        return self.model.prompts_of(agent)

    async def converse(
        self,
        agent: Agent[Task, Output],
        task: Task,
        context: RunContext,
        messages: tuple[Message, ...],
        tools: tuple[ToolSpec, ...] = (),
        already_recorded: int = 0,
    ) -> Reply:
        """The cached reply.

        Raises `Unusable` where there is none: the conversation cannot be continued.
        """
        request = self.model.conversation_request(messages, tools)
        reply = self._cached_reply(request)
        characters = len(reply.text) if reply is not None else 0
        self._count(agent.name, request, characters, cached=reply is not None)
        if reply is None:
            raise Unusable(
                "A dry run asks no model, so it cannot know how a conversation continues."
            )
        return reply

    def _count(
        self, agent: str, request: Request, characters: int, *, cached: bool
    ) -> None:
        self.calls.append(DryRunCall(agent, request, characters, cached, self.server))

    def _cached_reply(self, request: Request) -> Reply | None:
        if self.cache is None:
            return None
        return self.cache.get(request)
