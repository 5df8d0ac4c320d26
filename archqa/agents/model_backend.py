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
from archqa.errors import ArchqaError, CaseFailed, Refused, Unusable
from archqa.llm.model import FinishReason, Message, Model, Reply, Request, ToolSpec
from archqa.llm.prompts import Prompts
from archqa.llm.structured import Rejected, Unreadable, parse_output

_log = logging.getLogger(__name__)

_ONLY_REASONING = (
    "the server sent only reasoning, no answer: turn the model's reasoning off, "
    "or start the server without a parser of reasoning"
)
_UNREADABLE = {
    FinishReason.EMPTY: "the server sent an empty reply, no answer: try the model with `archqa doctor`",
    FinishReason.REASONING: _ONLY_REASONING,
}
"""What a server did whose reply cannot be read, and what to do; other replies are prose."""

_PROSE = (
    "the server sent no JSON object, only other text: name another model, "
    "or start the server with guided decoding (`archqa doctor` says what it does)"
)


class ReadReplies:
    """Whether replies of a model could be read so far; the agents of a run share it.

    A reply that holds nothing to read is asked for again only where that may help: a server that
    has sent nothing else is not asked twice.
    """

    def __init__(self) -> None:
        self.any_read = False
        self.any_given_up = False

    def may_repeat(self, reply: Reply, count: int) -> bool:
        """Whether to ask again after the reply, which is the `count`-th unreadable one of a call.

        Once in a call; of a model that was never read only after a text, and in one call only.
        """
        is_worthwhile = self.any_read or (bool(reply.text) and not self.any_given_up)
        if is_worthwhile and count == 1:
            return True
        self.any_given_up = True
        return False


class _Call(NamedTuple, Generic[Task, Output]):
    """One agent on one task, and where its steps go."""

    agent: Agent[Task, Output]
    task: Task
    context: RunContext


class ModelBackend(RenderingBackend):
    """Runs agents with one model; `turns` counts the first reply and the repair turns after it.

    `prompt` is a version to use instead of an agent's own, such as `decision/v1`. It applies to
    whichever agent has a prompt of that name. `read_replies` is shared by backends of one model.
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
        read_replies: ReadReplies | None = None,
    ) -> None:
        self._model = model
        self._name = name
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._turns = turns
        self._prompts = prompts
        self._prompt_override = prompt or ""
        self._read_replies = read_replies or ReadReplies()

    async def run(
        self, agent: Agent[Task, Output], task: Task, context: RunContext
    ) -> Output:
        """Ask until the output passes the agent's check.

        A refused reply is asked for once more, one that is cut off or unreadable only where that
        may help (`ReadReplies`).

        Raises `Refused`, `Truncated`, `Unusable`, and what the model raises.
        """
        call = _Call(agent, task, context)
        messages = self.initial_messages(agent, task)
        unreadable = 0
        for turn in range(self._turns):
            request = self.request(agent, task, messages, turn)
            reply = await self._ask(call, request)
            try:
                output = self._checked_output(agent, task, reply)
            except Unreadable as rejection:
                reason = str(rejection)
                unreadable += 1
                self._record(call, request, reply, None, rejected=reason)
                is_last = turn == self._turns - 1
                if is_last or not self._read_replies.may_repeat(reply, unreadable):
                    explanation = _UNREADABLE.get(reply.finish, _PROSE)
                    raise Unusable(f"{agent.name}: {explanation}.") from None
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
            except CaseFailed as failure:
                self._record(call, request, reply, None, rejected=failure.full_text)
                unreadable += 1
                is_repeatable = isinstance(failure, Refused) and turn == 0
                if not is_repeatable and not self._read_replies.may_repeat(
                    reply, unreadable
                ):
                    raise
                continue
            else:
                self._record(call, request, reply, output)
                return output
            rejected_reply = Message(role="assistant", content=reply.text or "{}")
            prompts = self.prompts_of(agent)
            repair = prompts.render_text("repair/v1/user.jinja", {"why": reason})
            messages = (*messages, rejected_reply, Message(role="user", content=repair))
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
            usage = Usage(seconds=time.monotonic() - started)
            self._log_request(call, type(failure).__name__, usage)
            if isinstance(failure, CaseFailed):
                no_reply = Reply(text="", finish=FinishReason.EMPTY)
                self._record(call, request, no_reply, None, rejected=failure.full_text)
            raise
        status = "cached" if reply.usage.cached_calls else reply.finish.value
        self._log_request(call, status, reply.usage, reply.served_by)
        return reply

    def _log_request(
        self, call: _Call[Task, Output], status: str, usage: Usage, served_by: str = ""
    ) -> None:
        """Log one line; the time is the server's, and of a failure all that passed."""
        _log.info(
            "model request: agent %s, model %s, status %s, %.0f ms, tokens %d in %d out",
            call.agent.name,
            served_by or self._name,
            status,
            1000 * usage.seconds,
            usage.prompt_tokens,
            usage.completion_tokens,
        )

    def _checked_output(
        self, agent: Agent[Task, Output], task: Task, reply: Reply
    ) -> Output:
        check_finish(agent.name, reply)
        # Some routers hand the schema to a model as a tool.
        text = reply.text or "".join(call.arguments for call in reply.tool_calls[-1:])
        if not text:
            raise Unreadable("Your reply was empty. Reply with the JSON object.")
        output = parse_output(text, agent.output_type)
        self._read_replies.any_read = True
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
