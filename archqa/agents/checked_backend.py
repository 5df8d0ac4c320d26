"""A backend of one's own as a run uses it: its outputs checked, its calls recorded."""

from dataclasses import replace
from typing import TypeVar

from archqa.agents.agent import Agent, Backend, RunContext
from archqa.core.step import Step
from archqa.core.usage import Usage
from archqa.core.value import FrozenModel
from archqa.errors import Unusable
from archqa.llm.model import Message, Reply, ToolSpec
from archqa.llm.prompts import Prompts, default_prompts, prompts_in
from archqa.llm.structured import Rejected

Task = TypeVar("Task", bound=FrozenModel)
Output = TypeVar("Output", bound=FrozenModel)


class CheckedBackend:
    """Runs agents with a backend that may come from anywhere.

    Its outputs pass the agent's check or are refused, as a model's are. A call of which the backend
    records no step itself is recorded here.
    """

    def __init__(self, backend: Backend, kind: str) -> None:
        self.kind = kind
        self._backend = backend

    async def run(self, agent: Agent[Task, Output], task: Task, context: RunContext) -> Output:
        """The output of the backend.

        Raises `Unusable` if it is of another type or fails the agent's check, and what it raises.
        """
        recorded: list[Step] = []
        output = await self._backend.run(agent, task, _counting(context, recorded))
        if not isinstance(output, agent.output_type):
            expected, got = agent.output_type.__name__, type(output).__name__
            reason = f"the backend {self.kind} returned {got}; it should be {expected}"
            context.record_step(self._step(agent, task, None, reason))
            raise Unusable(f"{agent.name}: {reason}.")
        try:
            agent.check(task, output)
        except Rejected as rejection:
            return self._salvaged(agent, task, context, output, str(rejection))
        if not recorded:
            context.record_step(self._step(agent, task, output))
        return output

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
        converse = getattr(self._backend, "converse", None)
        if converse is None:
            raise Unusable(f"The backend {self.kind} cannot converse, as {agent.name} needs.")
        recorded: list[Step] = []
        counting = _counting(context, recorded)
        reply: Reply = await converse(agent, task, counting, messages, tools, already_recorded)
        if not recorded:
            new_messages = messages[already_recorded:]
            context.record_step(self._turn(agent, task, new_messages, reply))
        return reply

    def prompt_name(self, agent: Agent[Task, Output]) -> str:
        """What the backend says, if it chooses among versions; else the agent's own prompt."""
        prompt_name = getattr(self._backend, "prompt_name", None)
        return agent.prompt if prompt_name is None else str(prompt_name(agent))

    def initial_messages(self, agent: Agent[Task, Output], task: Task) -> tuple[Message, ...]:
        """The prompt, rendered for the task."""
        return _prompts_of(agent).render(self.prompt_name(agent), dict(task))

    def prompt_text(self, agent: Agent[Task, Output], template: str) -> str:
        """A fixed text of the prompts folder."""
        return _prompts_of(agent).render_text(template, {})

    def _salvaged(
        self,
        agent: Agent[Task, Output],
        task: Task,
        context: RunContext,
        output: Output,
        reason: str,
    ) -> Output:
        salvaged = agent.salvage(task, output)
        context.record_step(self._step(agent, task, salvaged, reason))
        if salvaged is None:
            raise Unusable(f"{agent.name}: the output of the backend {self.kind} fails its check.")
        return salvaged

    def _step(
        self,
        agent: Agent[Task, Output],
        task: Task,
        output: Output | None,
        rejected: str = "",
    ) -> Step:
        return Step(
            agent=agent.name,
            about=agent.call_label(task),
            backend=self.kind,
            model=self.kind,
            parsed=None if output is None else output.model_dump(mode="json"),
            rejected=rejected,
            mended=bool(rejected) and output is not None,
            usage=Usage(calls=1, cost_usd=None),
        )

    def _turn(
        self,
        agent: Agent[Task, Output],
        task: Task,
        messages: tuple[Message, ...],
        reply: Reply,
    ) -> Step:
        calls = tuple(call.model_dump() for call in reply.tool_calls)
        prompt = self.prompt_name(agent)
        changes = {
            "prompt": prompt,
            "prompt_digest": _prompts_of(agent).digest(prompt),
            "model": reply.served_by or self.kind,
            "messages": tuple(message.model_dump() for message in messages),
            "reply": reply.text,
            "finish": reply.finish,
            "tool_calls": calls,
            "usage": reply.usage,
        }
        return self._step(agent, task, None).model_copy(update=changes)


def _counting(context: RunContext, recorded: list[Step]) -> RunContext:
    """The context, with each step that is recorded also in the list."""

    def record_step(step: Step) -> None:
        recorded.append(step)
        context.record_step(step)

    return replace(context, record_step=record_step)


def _prompts_of(agent: Agent[Task, Output]) -> Prompts:
    return prompts_in(agent.prompts_folder) if agent.prompts_folder else default_prompts()
