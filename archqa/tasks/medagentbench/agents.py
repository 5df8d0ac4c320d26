"""Agents that act on a record for MedAgentBench: what they are told, and how one turn with a model is taken.

`MedAgentPaperAgent` is the benchmark's baseline (Jiang et al., NEJM AI 2025, §2.4.3): nine functions in prose, one reply at
a time. `MedAgentTypedAgent` has tools with checked arguments, as in Chen et al. (PSB 2026).
"""

from collections.abc import Awaitable
from typing import TypeVar

from archqa.agents.agent import Agent, RunContext
from archqa.agents.dry_run_backend import DryRunBackend
from archqa.agents.model_backend import ModelBackend
from archqa.core.value import FrozenModel
from archqa.errors import CallerError
from archqa.llm.model import Message, Reply, ToolSpec

Task = TypeVar("Task", bound=FrozenModel)


class MedAgentPaperTask(FrozenModel):
    """What the baseline is told."""

    instruction: str
    context: str = ""
    api_base: str
    functions: str = ""


class MedAgentTypedTask(FrozenModel):
    """What the agent with tools is told; `memory` are corrections of earlier work."""

    instruction: str
    context: str = ""
    memory: tuple[str, ...] = ()


class AssistantTurn(FrozenModel):
    """One reply of a model, whole."""

    text: str


class MedAgentPaperAgent(Agent[MedAgentPaperTask, AssistantTurn]):
    """The baseline: writes GET, POST and FINISH itself."""

    name = "clinical_paper"
    prompt = "medagent_paper/v2"
    takes = MedAgentPaperTask
    returns = AssistantTurn


class MedAgentTypedAgent(Agent[MedAgentTypedTask, AssistantTurn]):
    """Calls typed tools."""

    name = "clinical_typed"
    prompt = "medagent_typed/v1"
    takes = MedAgentTypedTask
    returns = AssistantTurn


class ClinicalConversation:
    """What was said with a model about one task. Raises `CallerError` if no model performs the agent."""

    def __init__(self, agent: Agent[Task, AssistantTurn], task: Task, desk: RunContext) -> None:
        mind = desk.mind(agent.name)
        if not isinstance(mind, ModelBackend | DryRunBackend):
            raise CallerError(
                f"The agent {agent.name} needs a model.\nName one with --model or --base-url."
            )
        self._mind = mind
        self._recorded = 0
        self.messages = [each for each in mind.opening(agent, task) if each.content]

        def say(tools: tuple[ToolSpec, ...]) -> Awaitable[Reply]:
            return mind.say(agent, task, desk, tuple(self.messages), tools, self._recorded)

        self._say = say

    async def ask(self, tools: tuple[ToolSpec, ...] = ()) -> Reply:
        """The model's next turn. Raises `CaseFailed`, `ModelError`."""
        reply = await self._say(tools)
        self._recorded = len(self.messages)
        self.messages.append(reply.as_message)
        return reply

    def tell(self, text: str, call_id: str = "") -> None:
        """What the other side says: the controller, or the tool that was called."""
        role = "tool" if call_id else "user"
        self.messages.append(Message(role=role, content=text, tool_call_id=call_id))

    def add_prompt(self, template: str) -> None:
        """A fixed text out of the prompts."""
        self.tell(self._mind.words(template))
