"""Answers a question about a patient's chart by a model that looks up what it needs.

The model is shown what fits the question, may call tools for a limited number of turns, and answers
in lines that cite what it was shown. A second call checks each line against what it cites alone.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from archqa.agents.agent import Rejected, RunContext, check_finish
from archqa.agents.chart_answer import (
    ChartAnswerAgent,
    ChartAnswerTask,
    ChartLine,
    ChartReply,
    check_reply,
    line_problems,
)
from archqa.agents.conversation import Conversation, tool_calls_of
from archqa.agents.line_check import AnswerVerdict, ChartAnswerCheckAgent, LineCheckTask
from archqa.agents.tools import tools_by_name
from archqa.asking.answer import Answer, Status, unconfirmed_answer
from archqa.asking.chart_agent.marked_chart import (
    ChartToAsk,
    MarkedChart,
    SearchNotes,
    chart_tools,
)
from archqa.core.id_lists import list_ids
from archqa.errors import ContextTooLong, ToolsNotSupported
from archqa.fhir import Record
from archqa.llm.model import CHARACTERS_PER_TOKEN, Reply, ToolCall, ToolSpec
from archqa.llm.prompts import as_line
from archqa.llm.structured import parse_output
from archqa.query.wording.words import counted
from archqa.tasks.pipeline import agents_of_questions

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
        shown: MarkedChart,
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
            messages = self._conversation.messages
            tokens = (
                sum(message.characters for message in messages) // CHARACTERS_PER_TOKEN
            )
            is_last = self._turns_left <= 1 or tokens > self._budget.tokens
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
        problem_list = "\n".join(f"- {as_line(problem)}" for problem in problems)
        repair = self._conversation.own_prompt_text("repair.jinja")
        self._conversation.add_message(f"{repair}\n{problem_list}")
        return await self.answer()

    async def _ask(self, *, with_tools: bool) -> Reply:
        """Return the model's reply; a server that takes no tools is asked without them."""
        try:
            specs: tuple[ToolSpec, ...] = ()
            if with_tools and self._has_tool_calls:
                specs = tuple(tool.spec for tool in self._tools.values())
            reply = await self._conversation.next_reply(specs)
        except ToolsNotSupported:
            self._has_tool_calls = False
            reply = await self._conversation.next_reply()
        self._turns_left -= 1
        check_finish(ChartAnswerAgent.name, reply)
        self._conversation.messages.append(reply.as_message)
        return reply

    async def _look_up(self, calls: Sequence[ToolCall]) -> None:
        """Carry out tool calls; the results of those in a text are one message of the user."""
        self._has_looked_up = True
        written = []
        for call in calls:
            result = await asyncio.to_thread(self._carry_out, call)
            if call.id:
                self._conversation.add_tool_result(result, call.id)
            else:
                written.append(
                    f"{as_line(call.name)} {as_line(call.arguments)}\n{result}"
                )
        if written:
            self._conversation.add_message("\n\n".join(written))

    def _carry_out(self, call: ToolCall) -> str:
        tool = self._tools.get(call.name)
        if tool is None:
            return (
                f"There is no tool of that name. There are: {', '.join(self._tools)}."
            )
        self.searches += call.name == SearchNotes.name
        result = tool.call(self._record, call.arguments)
        lines = []
        for line in result.output.get("lines") or [str(result.output.get("error", ""))]:
            # Record text cannot end where it is shown; its indentation stays.
            indentation = line[: len(line) - len(line.lstrip())]
            lines.append(f"{indentation}{as_line(line)}")
        return "\n".join(lines)

    def _accepted(
        self, reply: Reply, calls: Sequence[ToolCall], *, is_last: bool
    ) -> ChartReply:
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
            acceptable = []
            for line in answer.lines:
                if not line_problems(self._question, line, 1, sources):
                    acceptable.append(line)
            answer = answer.model_copy(update={"lines": tuple(acceptable)})
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


REMOVED = "Lines were left out that what they cite does not support."
PARTLY_ANSWERED = "The lines answer only a part of the question."
BUDGET_SPENT = "The model came to no answer before its look-ups were spent."


CHART_AGENT = agents_of_questions(
    "chart-agent",
    "asking a chart: a model looks up notes and record, each line is checked",
    ChartAnswerAgent,
    ChartAnswerCheckAgent,
)


async def answer_chart_by_model(
    question: str,
    chart: ChartToAsk,
    context: RunContext,
    *,
    budget: ChartBudget | None = None,
) -> Answer:
    """Return the answer to a question about a chart, every line checked against what it cites.

    Two calls of a model where nothing has to be looked up. The backends of `context` are those of
    `CHART_AGENT`. Raises `ContextTooLong`, other `CaseFailed` where replies cannot be used,
    `ModelError`, and `FhirError` as the record does.
    """
    question = " ".join(question.split())
    marked_chart = await asyncio.to_thread(MarkedChart, chart, question)
    task = await asyncio.to_thread(marked_chart.first_task)
    record = chart.queries.record
    conversation = ChartConversation(
        task, marked_chart, record, context, budget or ChartBudget()
    )
    checked = _CheckedAnswer(question, marked_chart, conversation, context)
    try:
        return await checked.answer()
    except ContextTooLong:
        raise ContextTooLong(
            "What was looked up in the chart does not fit the model's context window.\n"
            "Ask without a model, or name a model that reads more."
        ) from None


class _CheckedAnswer:
    """One question: the conversation, the check of its answer, and the answer in the end."""

    def __init__(
        self,
        question: str,
        shown: MarkedChart,
        conversation: ChartConversation,
        context: RunContext,
    ) -> None:
        self._question = question
        self._shown = shown
        self._conversation = conversation
        self._context = context

    async def answer(self) -> Answer:
        """Return a checked answer; what the check rejects is repaired once, then left out."""
        reply = await self._conversation.answer()
        if reply is None:
            return self._not_found("", remarks=(BUDGET_SPENT,))
        verdict = await self._check(reply)
        if reply.status == "answered" and verdict is not None and verdict.problems:
            repaired = await self._conversation.repaired(verdict.problems)
            if repaired is not None:
                reply, verdict = repaired, await self._check(repaired)
        return self._composed(reply, verdict)

    async def _check(self, reply: ChartReply) -> AnswerVerdict | None:
        """Return the verdict on the lines of an answer; None if there are none."""
        if not reply.lines:
            return None
        task = LineCheckTask.of_chart(
            self._question,
            self._shown.now,
            reply.lines,
            self._shown.sources,
            status=reply.status,
            missing=" ".join(reply.missing.split()),
        )
        return await ChartAnswerCheckAgent().run(task, self._context)

    def _composed(self, reply: ChartReply, verdict: AnswerVerdict | None) -> Answer:
        """Return the supported lines; none, or lines that miss the question, are not confirmed."""
        supported = []
        for number, line in enumerate(reply.lines, start=1):
            if verdict is not None and str(number) in verdict.supported:
                supported.append(line)
        if reply.status == "not_understood":
            words = tuple(
                " ".join(word.split()) for word in reply.not_understood if word.strip()
            )
            quoted = list_ids(f'"{word}"' for word in words)
            return Answer(
                question=self._question,
                status=Status.NOT_UNDERSTOOD,
                message=f"Not understood: {quoted}.",
                not_understood=words,
            )
        if reply.status == "declined":
            message = (
                "This asks for a judgement that the chart does not state and that is not made "
                f"here: {_phrase(reply.missing)}."
            )
            if supported:
                message = f"{message} What the chart holds on this:"
            return self._with_lines(Status.DECLINED, supported, message=message)
        if reply.status == "not_found":
            return self._not_found(reply.missing, supported)
        if verdict is None or not supported or verdict.answers == "no":
            return unconfirmed_answer(
                self._question,
                [line.text for line in reply.lines],
                self._shown.evidence(reply.lines),
                misses=bool(supported),
            )
        remarks = []
        if len(supported) < len(reply.lines):
            remarks.append(REMOVED)
        if reply.missing.strip():
            remarks.append(f"Not stated: {_phrase(reply.missing)}.")
        elif verdict.answers == "partly":
            remarks.append(PARTLY_ANSWERED)
        answer = self._with_lines(Status.ANSWERED, supported, remarks=tuple(remarks))
        is_partial = bool(reply.missing.strip()) or verdict.answers == "partly"
        return answer.model_copy(update={"is_partial": is_partial})

    def _not_found(
        self,
        missing: str,
        related: Sequence[ChartLine] = (),
        remarks: tuple[str, ...] = (),
    ) -> Answer:
        """Return that nothing was found; related facts are remarks, so that they answer nothing."""
        what = f": {_phrase(missing)}" if missing.strip() else ""
        facts = []
        for line in related:
            facts.append(f"Related: {_phrase(line.text)} ({self._shown.titles(line)}).")
        notes = counted(len(self._shown.notes.notes.documents), "note", "notes")
        searched = f"the record and {notes}"
        if self._conversation.searches:
            times = counted(
                self._conversation.searches, "further search", "further searches"
            )
            searched = f"{searched}, with {times}"
        return Answer(
            question=self._question,
            status=Status.NOT_FOUND,
            message=f"Not stated in the chart{what} (searched: {searched}).",
            related=tuple(self._shown.evidence(related)),
            remarks=(*remarks, *facts),
        )

    def _with_lines(
        self,
        status: Status,
        lines: Sequence[ChartLine],
        *,
        message: str = "",
        remarks: tuple[str, ...] = (),
    ) -> Answer:
        return Answer(
            question=self._question,
            status=status,
            lines=tuple(map(self._shown.answer_line, lines)),
            evidence=tuple(self._shown.evidence(lines)),
            message=message,
            remarks=remarks,
        )


def _phrase(words: str) -> str:
    """Return a phrase on one line, without the full stop that a model may have set."""
    return " ".join(words.split()).rstrip(".")
