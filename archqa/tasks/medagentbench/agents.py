"""The agents that act on a record for MedAgentBench.

`MedAgentPaperAgent` is the benchmark's baseline (Jiang et al., NEJM AI 2025, §2.4.3): nine
functions in prose, one reply at a time. `MedAgentTypedAgent` has tools with checked arguments, as
in Chen et al. (PSB 2026).
"""

from typing import Any, TypeVar

from archqa.agents.agent import Agent, RunContext
from archqa.agents.conversation import Conversation
from archqa.core.value import FrozenModel
from archqa.llm.model import Reply, ToolSpec

Task = TypeVar("Task", bound=FrozenModel)


class MedAgentPaperTask(FrozenModel):
    """What the baseline is told."""

    instruction: str
    context: str = ""
    api_base: str
    functions: str = ""


class MedAgentTypedTask(FrozenModel):
    """What the agent with tools is told."""

    instruction: str
    context: str = ""


class AssistantTurn(FrozenModel):
    """One reply of a model, whole."""

    text: str


class MedAgentPaperAgent(Agent[MedAgentPaperTask, AssistantTurn]):
    """The baseline: writes GET, POST and FINISH itself."""

    name = "clinical_paper"
    prompt = "medagent_paper/v2"
    task_type = MedAgentPaperTask
    output_type = AssistantTurn


class MedAgentTypedAgent(Agent[MedAgentTypedTask, AssistantTurn]):
    """Calls typed tools."""

    name = "clinical_typed"
    prompt = "medagent_typed/v2"
    task_type = MedAgentTypedTask
    output_type = AssistantTurn


class ClinicalConversation(Conversation[Task]):
    """A conversation about one task; messages that a prompt leaves empty are not sent."""

    def __init__(self, agent: Agent[Task, Any], task: Task, context: RunContext) -> None:
        super().__init__(agent, task, context)
        self.messages = [message for message in self.messages if message.content]

    @property
    def first_user_message(self) -> str:
        """The text of the first message that is not the system's."""
        return next(message.content for message in self.messages if message.role == "user")

    async def ask(self, tools: tuple[ToolSpec, ...] = ()) -> Reply:
        """The model's next turn. Raises `CaseFailed`, `ModelError`."""
        reply = await self.next_reply(tools)
        self.messages.append(reply.as_message)
        return reply
