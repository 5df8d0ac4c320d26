"""Runs agents with a model server: renders the prompt, asks, validates the reply, and sends back
what was wrong.
"""

import logging
import time
from contextlib import suppress
from typing import Generic, NamedTuple

from archqa.agents.agent import (
    Agent,
    Output,
    RenderingBackend,
    RunContext,
    Task,
    check_finish,
    step_of,
)
from archqa.core.usage import Usage
from archqa.errors import ArchqaError, CaseFailed, Unusable
from archqa.llm.model import FinishReason, Message, Model, Reply, Request, ToolSpec
from archqa.llm.prompts import Prompts
from archqa.llm.structured import Rejected, parse_output

_log = logging.getLogger(__name__)


class _Call(NamedTuple, Generic[Task, Output]):
    """One agent on one task, and where its steps go."""

    agent: Agent[Task, Output]
    task: Task
    context: RunContext


class ModelBackend(RenderingBackend):
    """Runs agents with one model; `turns` counts the first reply and the repair turns after it.

    `prompt` is a version to use instead of an agent's own, such as `decision/v1`. It applies to
    whichever agent has a prompt of that name.
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
        self._prompts = prompts
        self._prompt_override = prompt or ""

    async def run(
        self, agent: Agent[Task, Output], task: Task, context: RunContext
    ) -> Output:
        """Ask until the output passes the agent's check; a refused or cut-off reply is asked for
        once more.

        Raises `Refused`, `Truncated`, `Unusable`, and what the model raises.
        """
        call = _Call(agent, task, context)
        messages = self.initial_messages(agent, task)
        for turn in range(self._turns):
            request = self.request(agent, task, messages, turn)
            reply = await self._ask(call, request)
            try:
                output = self._checked_output(agent, task, reply)
            except Rejected as rejection:
                reason = str(rejection)
                salvaged = None
                if turn == self._turns - 1:
                    with suppress(Rejected):
                        output = parse_output(reply.text, agent.output_type)
                        salvaged = agent.salvage(task, output)
                self._record(call, request, reply, salvaged, rejected=reason)
                if salvaged is not None:
                    return salvaged
                rejected_reply = Message(role="assistant", content=reply.text or "{}")
                prompts = self.prompts_of(agent)
                repair = prompts.render_text("repair/v1/user.jinja", {"why": reason})
                messages = (
                    *messages,
                    rejected_reply,
                    Message(role="user", content=repair),
                )
            except CaseFailed as failure:
                self._record(call, request, reply, None, rejected=failure.full_text)
                if turn > 0:
                    raise
            else:
                self._record(call, request, reply, output)
                return output
        raise Unusable(
            f"{agent.name}: none of {self._turns} replies passed its check; see the trace."
        )

    def prompt_name(self, agent: Agent[Task, Output]) -> str:
        """The override, if it is a version of the agent's prompt, else the agent's own prompt."""
        overridden = self._prompt_override.partition("/")[0]
        if overridden == agent.prompt.partition("/")[0]:
            return self._prompt_override
        return agent.prompt

    def prompts_of(self, agent: Agent[Task, Output]) -> Prompts:
        """The folder that the agent's prompts are in, unless this backend has one for all."""
        return self._prompts if self._prompts is not None else super().prompts_of(agent)

    async def converse(
        self,
        agent: Agent[Task, Output],
        task: Task,
        context: RunContext,
        messages: tuple[Message, ...],
        tools: tuple[ToolSpec, ...] = (),
        already_recorded: int = 0,
    ) -> Reply:
        """One turn of a conversation in prose. The caller judges what the reply says.

        Raises `CaseFailed` and what the model raises.
        """
        call = _Call(agent, task, context)
        request = self.conversation_request(messages, tools)
        reply = await self._ask(call, request)
        new_messages = request.model_copy(
            update={"messages": messages[already_recorded:]}
        )
        self._record(call, new_messages, reply, None)
        return reply

    def conversation_request(
        self, messages: tuple[Message, ...], tools: tuple[ToolSpec, ...] = ()
    ) -> Request:
        """The request of one turn of a conversation in prose."""
        return Request(
            model=self._name,
            messages=messages,
            temperature=self._temperature,
            max_tokens=self._max_tokens,
            tools=tools,
        )

    def request(
        self,
        agent: Agent[Task, Output],
        task: Task,
        messages: tuple[Message, ...] | None = None,
        turn: int = 0,
    ) -> Request:
        """The request of one turn of `run`; of the first without `messages`."""
        return Request(
            model=self._name,
            messages=messages or self.initial_messages(agent, task),
            output_schema=agent.output_schema(task),
            schema_name=agent.name,
            temperature=self._temperature,
            max_tokens=self._max_tokens,
            repetition=turn,
        )

    def parse_reply(
        self, agent: Agent[Task, Output], task: Task, reply: Reply
    ) -> Output | None:
        """The output in a reply if it passes the agent's check, else None."""
        try:
            return self._checked_output(agent, task, reply)
        except (Rejected, CaseFailed):
            return None

    async def _ask(self, call: _Call[Task, Output], request: Request) -> Reply:
        """The reply; a request is logged, and one that fails is recorded as a step as well."""
        started = time.monotonic()
        try:
            reply = await self._model.ask(request)
        except ArchqaError as failure:
            milliseconds = 1000 * (time.monotonic() - started)
            self._log_request(
                call, self._name, type(failure).__name__, milliseconds, Usage()
            )
            if isinstance(failure, CaseFailed):
                no_reply = Reply(text="", finish=FinishReason.EMPTY)
                self._record(call, request, no_reply, None, rejected=failure.full_text)
            raise
        status = "cached" if reply.usage.cached_calls else reply.finish.value
        milliseconds = 1000 * reply.usage.seconds
        self._log_request(
            call, reply.served_by or self._name, status, milliseconds, reply.usage
        )
        return reply

    def _log_request(
        self,
        call: _Call[Task, Output],
        model: str,
        status: str,
        milliseconds: float,
        usage: Usage,
    ) -> None:
        """Log one line; the time is the server's, and of a failure all that passed."""
        _log.info(
            "model request: agent %s, model %s, status %s, %.0f ms, tokens %d in %d out",
            call.agent.name,
            model,
            status,
            milliseconds,
            usage.prompt_tokens,
            usage.completion_tokens,
        )

    def _checked_output(
        self, agent: Agent[Task, Output], task: Task, reply: Reply
    ) -> Output:
        check_finish(agent.name, reply)
        if reply.finish is FinishReason.EMPTY:
            raise Rejected("Your reply was empty. Reply with the JSON object.")
        output = parse_output(reply.text, agent.output_type)
        agent.check(task, output)
        return output

    def _record(
        self,
        call: _Call[Task, Output],
        request: Request,
        reply: Reply,
        output: Output | None,
        rejected: str = "",
    ) -> None:
        fields = self.turn_fields(call.agent, request.messages, reply)
        fields.update(backend=self.kind, model=reply.served_by or self._name)
        call.context.record_step(
            step_of(call.agent, call.task, output, rejected, **fields)
        )
