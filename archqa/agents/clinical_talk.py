"""Agents that act on a record for MedAgentBench: what they are told, and how one turn with a model is taken.

`ClinicalPaper` is the benchmark's baseline (Jiang et al., NEJM AI 2025, §2.4.3): nine functions in prose, one reply at
a time. `ClinicalTyped` has tools with checked arguments, as in Chen et al. (PSB 2026).
"""

from collections.abc import Awaitable
from typing import TypeVar

from archqa.agents.base import Agent, Desk
from archqa.agents.model_mind import ModelMind
from archqa.agents.rehearsal_mind import RehearsalMind
from archqa.core.value import Value
from archqa.errors import CallerError
from archqa.llm.base import Message, Reply, ToolSpec

Task = TypeVar("Task", bound=Value)


class PaperTask(Value):
    """What the baseline is told."""

    instruction: str
    context: str = ""
    api_base: str


class TypedTask(Value):
    """What the agent with tools is told; `memory` are corrections of earlier work."""

    instruction: str
    context: str = ""
    memory: tuple[str, ...] = ()


class Turn(Value):
    """One reply of a model, whole."""

    text: str


class ClinicalPaper(Agent[PaperTask, Turn]):
    """The baseline: writes GET, POST and FINISH itself."""

    name = "clinical_paper"
    prompt = "medagent_paper/v1"
    takes = PaperTask
    returns = Turn


class ClinicalTyped(Agent[TypedTask, Turn]):
    """Calls typed tools."""

    name = "clinical_typed"
    prompt = "medagent_typed/v1"
    takes = TypedTask
    returns = Turn


class ClinicalTalk:
    """What was said with a model about one task. Raises `CallerError` if no model performs the agent."""

    def __init__(self, agent: Agent[Task, Turn], task: Task, desk: Desk) -> None:
        mind = desk.mind(agent.name)
        if not isinstance(mind, ModelMind | RehearsalMind):
            raise CallerError(f"The agent {agent.name} needs a model.\nName one with --model or --base-url.")
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
        self.messages.append(reply.turn)
        return reply

    def tell(self, text: str, call_id: str = "") -> None:
        """What the other side says: the controller, or the tool that was called."""
        role = "tool" if call_id else "user"
        self.messages.append(Message(role=role, content=text, tool_call_id=call_id))

    def remind(self, template: str) -> None:
        """A fixed text out of the prompts."""
        self.tell(self._mind.words(template))
