"""The mind behind a model server: renders the agent's prompt, asks, validates, and says what was wrong."""

from typing import TypeVar

from archqa.agents.base import Agent, Desk
from archqa.core.step import Step
from archqa.core.value import Value
from archqa.errors import CaseFailed, Refused, Truncated, Unusable
from archqa.llm.base import Finish, Message, Model, Reply, Request
from archqa.llm.prompts import Prompts, default_prompts
from archqa.llm.structured import Rejected, parse, strict_schema

Task = TypeVar("Task", bound=Value)
Output = TypeVar("Output", bound=Value)


class ModelMind:
    """Performs agents with one model; `turns` counts the first reply and the repair turns after it."""

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
    ) -> None:
        self._model = model
        self._name = name
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._turns = turns
        self._prompts = prompts or default_prompts()

    async def perform(self, agent: Agent[Task, Output], task: Task, desk: Desk) -> Output:
        """Ask until the output passes the agent's check; a refused or cut-off reply is asked for once more.

        Raises `Refused`, `Truncated`, `Unusable`, and what the model raises.
        """
        messages = self._prompts.render(agent.prompt, dict(task))
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
        raise Unusable(f"{agent.name}: none of {self._turns} replies passed its check; see the trace.")

    async def _asked(self, desk: Desk, agent: Agent[Task, Output], task: Task, request: Request) -> Reply:
        """The reply; a request that no reply can come to is a step of the trace as well."""
        try:
            return await self._model.ask(request)
        except CaseFailed as failure:
            self._note(desk, agent, task, request, Reply(text="", finish=Finish.EMPTY), None, rejected=str(failure))
            raise

    def first_request(self, agent: Agent[Task, Output], task: Task) -> Request:
        """What is asked at the first turn."""
        return self._request(agent, task, self._prompts.render(agent.prompt, dict(task)), 0)

    def read(self, agent: Agent[Task, Output], task: Task, reply: Reply) -> Output | None:
        """The output in a reply, if it passes the agent's check; None otherwise."""
        try:
            return self._checked(agent, task, reply)
        except (Rejected, CaseFailed):
            return None

    def _request(self, agent: Agent[Task, Output], task: Task, messages: tuple[Message, ...], turn: int) -> Request:
        return Request(
            model=self._name,
            messages=messages,
            output_schema=strict_schema(agent.returns, agent.choices(task)),
            schema_name=agent.name,
            temperature=self._temperature,
            max_tokens=self._max_tokens,
            repetition=turn,
        )

    def _checked(self, agent: Agent[Task, Output], task: Task, reply: Reply) -> Output:
        if reply.finish in {Finish.REFUSED, Finish.FILTERED}:
            raise Refused(f"{agent.name}: the model declined ({reply.finish}).")
        if reply.finish is Finish.EMPTY:
            raise Rejected("Your reply was empty. Reply with the JSON object.")
        if reply.finish is Finish.LENGTH:
            raise Truncated(f"{agent.name}: the reply was cut off; raise agents.{agent.name}.max_tokens.")
        output = parse(reply.text, agent.returns)
        agent.check(task, output)
        return output

    def _mended(self, agent: Agent[Task, Output], task: Task, reply: Reply) -> Output | None:
        try:
            return agent.mend(task, parse(reply.text, agent.returns))
        except Rejected:
            return None

    def _repair(self, reply: Reply, why: str) -> tuple[Message, Message]:
        words = self._prompts.render_text("repair/v1/user.jinja", {"why": why})
        return Message(role="assistant", content=reply.text or "{}"), Message(role="user", content=words)

    def _note(
        self,
        desk: Desk,
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
                prompt=agent.prompt,
                prompt_digest=self._prompts.digest(agent.prompt),
                messages=tuple(message.model_dump() for message in request.messages),
                reply=reply.text,
                finish=reply.finish,
                parsed=output.model_dump(mode="json") if output is not None else None,
                rejected=rejected,
                mended=bool(rejected) and output is not None,
                usage=reply.usage,
            )
        )
