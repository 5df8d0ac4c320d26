"""The conversation with a model about one chart: look-ups in turns, until an acceptable answer."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from archqa.agents.agent import Rejected, RunContext, check_finish
from archqa.agents.chart_answer import (
    ChartAnswerAgent,
    ChartAnswerTask,
    ChartReply,
    check_reply,
    line_problems,
)
from archqa.agents.conversation import Conversation, tool_calls_of
from archqa.agents.tools import tools_by_name
from archqa.asking.chart_agent.shown import ShownChart
from archqa.asking.chart_agent.tools import SearchNotes, chart_tools
from archqa.errors import ToolsNotSupported
from archqa.fhir import Record
from archqa.llm.model import CHARACTERS_PER_TOKEN, Reply, ToolCall, ToolSpec
from archqa.llm.prompts import as_line
from archqa.llm.structured import parse_output

_REPAIR_TURNS = 2
_CORRECTIONS = 1
"""How often a reply may be corrected after the last turn."""


class ChartBudget(NamedTuple):
    """The limits of one question: the model's turns, and the estimated tokens of the conversation.

    When either is reached, the model is asked to answer from what it was shown.
    """

    turns: int = 6
    tokens: int = 24_000


class ChartConversation:
    """A conversation about one question. `searches` counts the model's own searches of the notes."""

    def __init__(
        self,
        task: ChartAnswerTask,
        shown: ShownChart,
        record: Record,
        context: RunContext,
        budget: ChartBudget,
    ) -> None:
        self._conversation = Conversation(ChartAnswerAgent(), task, context)
        self._question = task.question
        self._shown = shown
        self._record = record
        self._budget = budget
        self._tools = tools_by_name(chart_tools(shown.notes, shown.record))
        self._has_tool_calls = True
        self._turns_left = budget.turns
        self._has_looked_up = False
        self._is_told_to_end = False
        self.searches = 0

    async def answer(self) -> ChartReply | None:
        """Return the next acceptable answer; None if there is none when the budget is spent.

        Raises `Refused`, `Truncated`, and as the backend does.
        """
        corrections = _CORRECTIONS
        while True:
            is_last = self._is_spent
            if is_last and not self._is_told_to_end:
                last = self._conversation.own_prompt_text("last.jinja")
                self._conversation.add_message(last)
                self._is_told_to_end = True
            reply = await self._ask(with_tools=not is_last)
            calls = tool_calls_of(reply)
            if calls and not is_last:
                await self._look_up(calls)
                continue
            try:
                return self._accepted(reply, calls, is_last=is_last)
            except Rejected as rejection:
                if is_last and not corrections:
                    return self._salvaged(reply)
                corrections -= is_last
                self._send_back(calls, str(rejection))

    async def repaired(self, problems: Sequence[str]) -> ChartReply | None:
        """Return another answer to what a check found; None if there is none. Raises as above."""
        self._turns_left = max(self._turns_left, _REPAIR_TURNS)
        self._is_told_to_end = False
        found = "\n".join(f"- {as_line(problem)}" for problem in problems)
        repair = self._conversation.own_prompt_text("repair.jinja")
        self._conversation.add_message(f"{repair}\n{found}")
        return await self.answer()

    @property
    def _is_spent(self) -> bool:
        characters = sum(message.characters for message in self._conversation.messages)
        tokens = characters // CHARACTERS_PER_TOKEN
        return self._turns_left <= 1 or tokens > self._budget.tokens

    async def _ask(self, *, with_tools: bool) -> Reply:
        """Return the model's reply; a server that takes no tools is asked without them."""
        try:
            reply = await self._conversation.next_reply(self._specs if with_tools else ())
        except ToolsNotSupported:
            self._has_tool_calls = False
            reply = await self._conversation.next_reply()
        self._turns_left -= 1
        check_finish(ChartAnswerAgent.name, reply)
        self._conversation.messages.append(reply.as_message)
        return reply

    @property
    def _specs(self) -> tuple[ToolSpec, ...]:
        if not self._has_tool_calls:
            return ()
        return tuple(tool.spec for tool in self._tools.values())

    async def _look_up(self, calls: Sequence[ToolCall]) -> None:
        """Carry out tool calls; the results of those in a text are one message of the user."""
        self._has_looked_up = True
        written = []
        for call in calls:
            result = await asyncio.to_thread(self._carry_out, call)
            if call.id:
                self._conversation.add_tool_result(result, call.id)
            else:
                written.append(f"{as_line(call.name)} {as_line(call.arguments)}\n{result}")
        if written:
            self._conversation.add_message("\n\n".join(written))

    def _carry_out(self, call: ToolCall) -> str:
        tool = self._tools.get(call.name)
        if tool is None:
            return f"There is no tool of that name. There are: {', '.join(self._tools)}."
        self.searches += call.name == SearchNotes.name
        result = tool.call(self._record, call.arguments)
        lines = result.output.get("lines") or [str(result.output.get("error", ""))]
        return "\n".join(_escaped(line) for line in lines)

    def _accepted(self, reply: Reply, calls: Sequence[ToolCall], *, is_last: bool) -> ChartReply:
        """Return the answer in a reply.

        Raises `Rejected`, also where a model looks nothing up before it says that it is not there.
        """
        if calls:
            raise Rejected("Nothing more can be looked up.")
        answer = parse_output(reply.text, ChartReply)
        check_reply(self._question, answer, self._shown.sources)
        if answer.status == "not_found" and not self._has_looked_up and not is_last:
            self._has_looked_up = True  # Asked once; a second time it stands.
            raise Rejected(self._conversation.own_prompt_text("search_first.jinja"))
        return answer

    def _salvaged(self, reply: Reply) -> ChartReply | None:
        """Return an answer without the lines that are not acceptable; None if nothing is left."""
        sources = self._shown.sources
        try:
            answer = parse_output(reply.text, ChartReply)
            good = [
                line for line in answer.lines if not line_problems(self._question, line, 1, sources)
            ]
            answer = answer.model_copy(update={"lines": tuple(good)})
            check_reply(self._question, answer, sources)
        except Rejected:
            return None
        return answer

    def _send_back(self, calls: Sequence[ToolCall], reason: str) -> None:
        """Tell the model why a reply cannot be used; a call of a tool needs a result of its own."""
        for call in calls:
            if call.id:
                self._conversation.add_tool_result(reason, call.id)
        rejected = self._conversation.own_prompt_text("rejected.jinja")
        self._conversation.add_message(f"{rejected} {reason}")


def _escaped(line: str) -> str:
    """Return a line of record text that cannot end where it is shown, with its indentation."""
    indentation = line[: len(line) - len(line.lstrip())]
    return f"{indentation}{as_line(line)}"
