"""A conversation between an agent and a model, turn by turn."""

import json
from functools import cache
from typing import Any, Generic, Literal, NamedTuple, cast

from pydantic import ConfigDict, Field

from archqa.agents.agent import Agent, RunContext, Task
from archqa.core.tables import read_rows
from archqa.core.value import FrozenModel
from archqa.llm.model import Message, Reply, ToolCall, ToolSpec
from archqa.llm.structured import Rejected, parse_output


class Conversation(Generic[Task]):
    """The messages of one conversation. Raises `Unusable` if the agent's backend cannot converse."""

    def __init__(
        self, agent: Agent[Task, Any], task: Task, context: RunContext
    ) -> None:
        self._agent = agent
        self._task = task
        self._context = context
        self._backend = context.backend(agent.name)
        self._recorded_count = 0
        self.messages = list(self._backend.initial_messages(agent, task))

    async def next_reply(self, tools: tuple[ToolSpec, ...] = ()) -> Reply:
        """The model's reply to the messages so far; it is not added to them.

        Raises `CaseFailed`, `ModelError`.
        """
        reply = await self._backend.converse(
            self._agent,
            self._task,
            self._context,
            tuple(self.messages),
            tools,
            self._recorded_count,
        )
        self._recorded_count = len(self.messages)
        return reply

    def add_message(self, text: str) -> None:
        """Add a user message."""
        self.messages.append(Message(role="user", content=text))

    def add_tool_result(self, text: str, call_id: str) -> None:
        """Add the result of the tool call with this id."""
        self.messages.append(Message(role="tool", content=text, tool_call_id=call_id))

    def add_prompt_text(self, template: str) -> None:
        """Add a fixed text of the prompts folder, such as `repair/v1/empty.jinja`, as a user
        message.
        """
        self.add_message(self._backend.prompt_text(self._agent, template))

    def own_prompt_text(self, file: str) -> str:
        """Return a fixed text out of the folder of the agent's own prompt version."""
        template = f"{self._backend.prompt_name(self._agent)}/{file}"
        return self._backend.prompt_text(self._agent, template)


_TABLE = "agents/data/conversation_turns.tsv"
_NO_LIMIT = "-"

Basis = Literal["measured", "benchmark", "assumed"]


class Turns(NamedTuple):
    """Turns of one conversation: fewest, expected, most."""

    low: float
    expected: float
    high: float

    def at_most(self, limit: float) -> "Turns":
        """The same where no conversation has more turns than `limit`."""
        return Turns(*(min(turns, limit) for turns in self))

    def without(self, known_turns: int) -> "Turns":
        """The turns after some that are known; one at least."""
        return Turns(*(max(1.0, turns - known_turns) for turns in self))


class ConversationTurns(NamedTuple):
    """The turns of an agent's conversations, and the assumed tokens that each adds.

    `basis` says what the expected number rests on, `source` where all three are from.
    """

    agent: str
    turns: Turns
    limit_setting: str
    turns_per_limit: int
    result_tokens: int
    reply_tokens: int
    basis: Basis
    source: str

    @property
    def added_tokens(self) -> int:
        """Tokens by which each turn lengthens the next prompt."""
        return self.result_tokens + self.reply_tokens

    def under(self, settings: FrozenModel) -> Turns:
        """The turns that the limits in a pipeline's settings allow."""
        limit: int | None = getattr(settings, self.limit_setting, None)
        if limit is None:
            return self.turns
        return self.turns.at_most(limit * self.turns_per_limit)


@cache
def conversation_turns() -> dict[str, ConversationTurns]:
    """The agents that converse in several turns, by name."""
    by_agent = {}
    for row in read_rows(_TABLE, 10):
        agent, low, expected, high, limit, factor, result, reply, basis, source = row
        by_agent[agent] = ConversationTurns(
            agent=agent,
            turns=Turns(float(low), float(expected), float(high)),
            limit_setting="" if limit == _NO_LIMIT else limit,
            turns_per_limit=int(factor),
            result_tokens=int(result),
            reply_tokens=int(reply),
            basis=cast("Basis", basis),
            source=source,
        )
    return by_agent


class _WrittenCall(FrozenModel):
    model_config = ConfigDict(extra="ignore")

    name: str
    arguments: dict[str, Any] | str = {}


class _WrittenCalls(FrozenModel):
    model_config = ConfigDict(extra="ignore")

    tool_calls: tuple[_WrittenCall, ...] = Field(min_length=1)


def tool_calls_of(reply: Reply) -> tuple[ToolCall, ...]:
    """Return the calls in a reply; those that stand in its text have no id. Empty without any."""
    if reply.tool_calls:
        return reply.tool_calls
    try:
        written = parse_output(reply.text, _WrittenCalls)
    except Rejected:
        return ()
    calls = []
    for call in written.tool_calls:
        arguments = call.arguments
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        calls.append(ToolCall(id="", name=call.name, arguments=arguments))
    return tuple(calls)
