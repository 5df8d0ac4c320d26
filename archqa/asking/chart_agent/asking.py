"""Answers a question about a patient's chart by a model that looks up what it needs.

The model is shown what fits the question, may call tools for a limited number of turns, and answers
in lines that cite what it was shown. A second call checks each line against what it cites alone.
"""

import asyncio
from collections.abc import Sequence

from archqa.agents.agent import RunContext
from archqa.agents.chart_answer import ChartAnswerAgent, ChartLine, ChartReply
from archqa.agents.line_check import AnswerVerdict, ChartAnswerCheckAgent, LineCheckTask
from archqa.asking.answer import Answer, Status
from archqa.asking.chart_agent.conversation import ChartBudget, ChartConversation
from archqa.asking.chart_agent.shown import ChartToAsk, ShownChart
from archqa.asking.record_words import counted
from archqa.core.id_lists import list_ids
from archqa.errors import ContextTooLong
from archqa.tasks.pipeline import Pipeline, PipelineResult
from archqa.tasks.settings import PipelineSettings

REMOVED = "Lines were left out that what they cite does not support."
NOTHING_LEFT = "The model gave an answer, but what it cites does not support it."
PARTLY_ANSWERED = "The lines answer only a part of the question."
BUDGET_SPENT = "The model came to no answer before its look-ups were spent."


class ChartAgentSettings(PipelineSettings):
    """The settings of asking a chart by a model: there are none but those of its agents."""


async def _needs_an_open_chart(*_: object) -> PipelineResult:
    raise NotImplementedError("A chart is asked by answer_chart_by_model.")


CHART_AGENT = Pipeline(
    name="chart-agent",
    summary="asking a chart: a model looks up notes and record, each line is checked",
    backend="model",
    run=_needs_an_open_chart,
    prompts=(ChartAnswerAgent.prompt, ChartAnswerCheckAgent.prompt),
    agents=(ChartAnswerAgent.name, ChartAnswerCheckAgent.name),
    settings_type=ChartAgentSettings,
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
    shown = await asyncio.to_thread(ShownChart, chart, question)
    task = await asyncio.to_thread(shown.first_task)
    record = chart.queries.record
    conversation = ChartConversation(task, shown, record, context, budget or ChartBudget())
    asking = _Asking(question, shown, conversation, context)
    try:
        return await asking.answer()
    except ContextTooLong:
        raise ContextTooLong(
            "What was looked up in the chart does not fit the model's context window.\n"
            "Ask without a model, or name a model that reads more."
        ) from None


class _Asking:
    """One question: the conversation, the check of its answer, and the answer in the end."""

    def __init__(
        self,
        question: str,
        shown: ShownChart,
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
        """Return the supported lines; without any, or if they miss the question, not found."""
        supported = _supported(reply, verdict)
        if reply.status == "not_understood":
            return self._not_understood(reply)
        if reply.status == "declined":
            return self._declined(reply, supported)
        if reply.status == "not_found":
            return self._not_found(reply.missing, supported)
        if verdict is None or not supported or verdict.answers == "no":
            return self._not_found(reply.missing, remarks=(NOTHING_LEFT,))
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

    def _declined(self, reply: ChartReply, related: Sequence[ChartLine]) -> Answer:
        message = (
            "This asks for a judgement that the chart does not state and that is not made here: "
            f"{_phrase(reply.missing)}."
        )
        if related:
            message = f"{message} What the chart holds on this:"
        return self._with_lines(Status.DECLINED, related, message=message)

    def _not_understood(self, reply: ChartReply) -> Answer:
        words = tuple(" ".join(words.split()) for words in reply.not_understood if words.strip())
        quoted = list_ids(f'"{word}"' for word in words)
        return Answer(
            question=self._question,
            status=Status.NOT_UNDERSTOOD,
            message=f"Not understood: {quoted}.",
            not_understood=words,
        )

    def _not_found(
        self, missing: str, related: Sequence[ChartLine] = (), remarks: tuple[str, ...] = ()
    ) -> Answer:
        """Return that nothing was found; related facts are remarks, so that they answer nothing."""
        what = f": {_phrase(missing)}" if missing.strip() else ""
        facts = [f"Related: {_phrase(line.text)} ({self._shown.titles(line)})." for line in related]
        return Answer(
            question=self._question,
            status=Status.NOT_FOUND,
            message=f"Not stated in the chart{what} (searched: {self._extent()}).",
            remarks=(*remarks, *facts),
        )

    def _extent(self) -> str:
        """What was searched: the record, so many notes, and how often in other words."""
        count = len(self._shown.notes.notes.documents)
        extent = f"the record and {counted(count, 'note', 'notes')}"
        times = self._conversation.searches
        searches = counted(times, "further search", "further searches")
        return f"{extent}, with {searches}" if times else extent

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


def _supported(reply: ChartReply, verdict: AnswerVerdict | None) -> list[ChartLine]:
    if verdict is None:
        return []
    numbered = enumerate(reply.lines, start=1)
    return [line for number, line in numbered if str(number) in verdict.supported]


def _phrase(words: str) -> str:
    """Return a phrase on one line, without the full stop that a model may have set."""
    return " ".join(words.split()).rstrip(".")
