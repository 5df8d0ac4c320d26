"""A backend of your own as a run uses it: its outputs checked, its calls recorded."""

from dataclasses import dataclass, replace

from archqa.agents.agent import (
    Agent,
    Backend,
    Output,
    RenderingBackend,
    RunContext,
    Task,
    step_of,
)
from archqa.core.step import Step
from archqa.core.usage import Usage
from archqa.errors import Unusable
from archqa.llm.model import Message, Reply, ToolSpec


@dataclass
class CheckedBackend(RenderingBackend):
    """Runs agents with a backend that may come from anywhere.

    Its outputs pass the agent's check or are refused, as a model's are. A call of which the backend
    records no step itself is recorded here.
    """

    backend: Backend
    kind: str

    async def run(
        self, agent: Agent[Task, Output], task: Task, context: RunContext
    ) -> Output:
        """The output of the backend.

        Raises `Unusable` if it is of another type or fails the agent's check, and what it raises.
        """
        recorded: list[Step] = []
        output = await self.backend.run(agent, task, _counting(context, recorded))
        if not isinstance(output, agent.output_type):
            expected, got = agent.output_type.__name__, type(output).__name__
            reason = f"the backend {self.kind} returned {got}; it should be {expected}"
            context.record_step(self._step(agent, task, None, reason))
            raise Unusable(f"{agent.name}: {reason}.")
        usable, rejected = agent.checked(task, output)
        if rejected or not recorded:
            context.record_step(self._step(agent, task, usable, rejected))
        if usable is None:
            raise Unusable(
                f"{agent.name}: the output of the backend {self.kind} fails its check."
            )
        return usable

    async def converse(
        self,
        agent: Agent[Task, Output],
        task: Task,
        context: RunContext,
        messages: tuple[Message, ...],
        tools: tuple[ToolSpec, ...] = (),
        already_recorded: int = 0,
    ) -> Reply:
        """The backend's next turn. Raises `Unusable` if it has no method `converse`."""
        converse = getattr(self.backend, "converse", None)
        if converse is None:
            raise Unusable(
                f"The backend {self.kind} cannot converse, as {agent.name} needs."
            )
        recorded: list[Step] = []
        counting = _counting(context, recorded)
        reply: Reply = await converse(
            agent, task, counting, messages, tools, already_recorded
        )
        if not recorded:
            turn = self.turn_fields(agent, messages[already_recorded:], reply)
            turn["model"] = reply.served_by or self.kind
            context.record_step(self._step(agent, task, None).model_copy(update=turn))
        return reply

    def prompt_name(self, agent: Agent[Task, Output]) -> str:
        """What the backend says, if it chooses among versions; else the agent's own prompt."""
        prompt_name = getattr(self.backend, "prompt_name", None)
        return agent.prompt if prompt_name is None else str(prompt_name(agent))

    def _step(
        self,
        agent: Agent[Task, Output],
        task: Task,
        output: Output | None,
        rejected: str = "",
    ) -> Step:
        usage = Usage(calls=1, cost_usd=None)
        fields = {"backend": self.kind, "model": self.kind, "usage": usage}
        return step_of(agent, task, output, rejected, **fields)


def _counting(context: RunContext, recorded: list[Step]) -> RunContext:
    """The context, with each step that is recorded also in the list."""

    def record_step(step: Step) -> None:
        recorded.append(step)
        context.record_step(step)

    return replace(context, record_step=record_step)
