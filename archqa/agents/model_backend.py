"""The mind behind a model server: renders the agent's prompt, asks, validates, and says what was wrong."""

from typing import TypeVar

from archqa.agents.agent import Agent, RunContext
from archqa.core.step import Step
from archqa.core.value import FrozenModel
from archqa.errors import CaseFailed, Refused, Truncated, Unusable
from archqa.llm.model import FinishReason, Message, Model, Reply, Request, ToolSpec
from archqa.llm.prompts import Prompts, default_prompts
from archqa.llm.structured import Rejected, parse_output, strict_schema

Task = TypeVar("Task", bound=FrozenModel)
Output = TypeVar("Output", bound=FrozenModel)


_WARM = 0.7
"""Temperature at which the same is asked again, where the first asking had none: else it would say the same."""


class ModelBackend:
    """Performs agents with one model; `turns` counts the first reply and the repair turns after it.

    `prompt` is the version to use, such as `answer_first/v2`, of whichever agent has a prompt of that name.
    """

    kind = "model"

    def __init__(
        self,
        model: Model,
        name: str,
        *,
        temperature: float | None = 0.0,
        max_tokens: int | None = 4096,
        turns: int = 3,
        prompts: Prompts | None = None,
        prompt: str | None = None,
    ) -> None:
        self._model = model
        self._name = name
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._turns = turns
        self._prompts = prompts or default_prompts()
        self._prompt = prompt or ""

    async def perform(self, agent: Agent[Task, Output], task: Task, desk: RunContext) -> Output:
        """Ask until the output passes the agent's check; a refused or cut-off reply is asked for once more.

        Raises `Refused`, `Truncated`, `Unusable`, and what the model raises.
        """
        messages = self._prompts.render(self._words(agent), dict(task))
        for turn in range(self._turns):
            request = self._request(agent, task, messages, turn)
            reply = await self._asked(desk, agent, task, request)
            try:
                output = self._checked(agent, task, reply)
            except Rejected as why:
                mended = self._mended(agent, task, reply) if turn == self._turns - 1 else None
                self._note(desk, agent, task, request, reply, mended, rejected=str(why))
                if mended is not None:
                    return mended
                messages = (*messages, *self._repair(reply, str(why)))
            except CaseFailed as failure:
                self._note(desk, agent, task, request, reply, None, rejected=str(failure))
                if turn > 0:
                    raise
            else:
                self._note(desk, agent, task, request, reply, output)
                return output
        raise Unusable(
            f"{agent.name}: none of {self._turns} replies passed its check; see the trace."
        )

    async def _asked(
        self, desk: RunContext, agent: Agent[Task, Output], task: Task, request: Request
    ) -> Reply:
        """The reply; a request that no reply can come to is a step of the trace as well."""
        try:
            return await self._model.ask(request)
        except CaseFailed as failure:
            self._note(
                desk,
                agent,
                task,
                request,
                Reply(text="", finish=FinishReason.EMPTY),
                None,
                rejected=str(failure),
            )
            raise

    def opening(self, agent: Agent[Task, Output], task: Task) -> tuple[Message, ...]:
        """What a conversation with this agent begins with."""
        return self._prompts.render(agent.prompt, dict(task))

    def words(self, template: str) -> str:
        """A fixed text out of the prompts, such as what is said to an empty reply."""
        return self._prompts.render_text(template, {})

    async def say(
        self,
        agent: Agent[Task, Output],
        task: Task,
        desk: RunContext,
        messages: tuple[Message, ...],
        tools: tuple[ToolSpec, ...] = (),
        recorded: int = 0,
    ) -> Reply:
        """One turn of a conversation in prose, tools offered. Of `messages`, the first `recorded` are known already.

        Raises `CaseFailed` and what the model raises; what the reply says is for the caller to judge.
        """
        request = self.conversation_request(messages, tools)
        reply = await self._asked(desk, agent, task, request)
        self._note(
            desk,
            agent,
            task,
            request.model_copy(update={"messages": messages[recorded:]}),
            reply,
            None,
        )
        return reply

    def conversation_request(
        self, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...] = ()
    ) -> Request:
        """What is asked at a turn of a conversation in prose."""
        return Request(
            model=self._name,
            messages=messages,
            temperature=self._temperature,
            max_tokens=self._max_tokens,
            tools=tools,
        )

    def first_request(self, agent: Agent[Task, Output], task: Task) -> Request:
        """What is asked at the first turn."""
        return self._request(agent, task, self._prompts.render(self._words(agent), dict(task)), 0)

    def read(self, agent: Agent[Task, Output], task: Task, reply: Reply) -> Output | None:
        """The output in a reply, if it passes the agent's check; None otherwise."""
        try:
            return self._checked(agent, task, reply)
        except (Rejected, CaseFailed):
            return None

    def _words(self, agent: Agent[Task, Output]) -> str:
        """The agent's prompt, or the version of it that this mind was told to use."""
        same = self._prompt.partition("/")[0] == agent.prompt.partition("/")[0]
        return self._prompt if same else agent.prompt

    def _request(
        self, agent: Agent[Task, Output], task: Task, messages: tuple[Message, ...], turn: int
    ) -> Request:
        again = int(getattr(task, "repetition", 0))
        return Request(
            model=self._name,
            messages=messages,
            output_schema=strict_schema(agent.returns, agent.choices(task)),
            schema_name=agent.name,
            temperature=_WARM if again and self._temperature == 0 else self._temperature,
            max_tokens=self._max_tokens,
            repetition=turn + self._turns * again,
            likelihoods=agent.likelihoods,
        )

    def _checked(self, agent: Agent[Task, Output], task: Task, reply: Reply) -> Output:
        if reply.finish in {FinishReason.REFUSED, FinishReason.FILTERED}:
            raise Refused(f"{agent.name}: the model declined ({reply.finish}).")
        if reply.finish is FinishReason.EMPTY:
            raise Rejected("Your reply was empty. Reply with the JSON object.")
        if reply.finish is FinishReason.LENGTH:
            raise Truncated(
                f"{agent.name}: the reply was cut off; raise agents.{agent.name}.max_tokens."
            )
        output = parse_output(reply.text, agent.returns)
        agent.check(task, output)
        return agent.weigh(task, output, reply)

    def _mended(self, agent: Agent[Task, Output], task: Task, reply: Reply) -> Output | None:
        try:
            return agent.mend(
                task, agent.weigh(task, parse_output(reply.text, agent.returns), reply)
            )
        except Rejected:
            return None

    def _repair(self, reply: Reply, why: str) -> tuple[Message, Message]:
        words = self._prompts.render_text("repair/v1/user.jinja", {"why": why})
        return Message(role="assistant", content=reply.text or "{}"), Message(
            role="user", content=words
        )

    def _note(
        self,
        desk: RunContext,
        agent: Agent[Task, Output],
        task: Task,
        request: Request,
        reply: Reply,
        output: Output | None,
        rejected: str = "",
    ) -> None:
        desk.record(
            Step(
                agent=agent.name,
                about=agent.about(task),
                mind=self.kind,
                model=reply.served_by or self._name,
                prompt=self._words(agent),
                prompt_digest=self._prompts.digest(self._words(agent)),
                messages=tuple(message.model_dump() for message in request.messages),
                reply=reply.text,
                finish=reply.finish,
                tool_calls=tuple(call.model_dump() for call in reply.tool_calls),
                parsed=output.model_dump(mode="json") if output is not None else None,
                rejected=rejected,
                mended=bool(rejected) and output is not None,
                usage=reply.usage,
            )
        )
