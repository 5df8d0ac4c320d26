"""A conversation between an agent and a model, turn by turn."""

from typing import Any, Generic, TypeVar

from archqa.agents.agent import Agent, RunContext
from archqa.core.value import FrozenModel
from archqa.llm.model import Message, Reply, ToolSpec

Task = TypeVar("Task", bound=FrozenModel)


class Conversation(Generic[Task]):
    """The messages of one conversation. Raises `Unusable` if the agent's backend cannot converse."""

    def __init__(self, agent: Agent[Task, Any], task: Task, context: RunContext) -> None:
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

    def add_own_prompt_text(self, file: str) -> None:
        """Add a fixed text out of the folder of the agent's own prompt version."""
        self.add_message(self.own_prompt_text(file))

    def own_prompt_text(self, file: str) -> str:
        """Return a fixed text out of the folder of the agent's own prompt version."""
        template = f"{self._backend.prompt_name(self._agent)}/{file}"
        return self._backend.prompt_text(self._agent, template)
