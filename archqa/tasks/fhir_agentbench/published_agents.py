"""The five agents of FHIR-AgentBench.

Source: Lee et al., ML4H 2025, §4; glee4810/FHIR-AgentBench at bbb4290.

    archqa                         benchmark
    single-turn-request            single_turn_request
    single-turn-retriever          single_turn_resource
    single-turn-retriever-code     single_turn_code_resource
    multi-turn-retriever           multi_turn_resource
    multi-turn-retriever-code      multi_turn_code_resource

The setting `official` (on by default) keeps their quirks: a second search for a type replaces the
result of the first, a GET returns one page, resources are searched by the parameter `id` and shown
raw. Differences: code runs in a sandbox, an error of a tool is a message to the model instead of
the end of the question, tokens are estimated as characters / 4.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

from archqa.agents.agent import Agent, RunContext, check_finish
from archqa.agents.conversation import Conversation
from archqa.agents.sandbox import SandboxLimits
from archqa.agents.tools import Tool, tool_error, tools_by_name
from archqa.core.question import RecordQuestion
from archqa.errors import CaseFailed, ContextTooLong, Unusable
from archqa.llm.model import (
    CHARACTERS_PER_TOKEN,
    FinishReason,
    Reply,
    ToolCall,
    ToolSpec,
)
from archqa.tasks.fhir_agentbench.agents import (
    FhirMultiTurnAgent,
    FhirMultiTurnCodeAgent,
    FhirRequestAgent,
    FhirRetrieverAgent,
    FhirRetrieverCodeAgent,
    FinalMessage,
    RecordQuestionTask,
)
from archqa.tasks.fhir_agentbench.settings import (
    CodeAgentSettings,
    MultiTurnCodeSettings,
    MultiTurnSettings,
    PublishedAgentSettings,
)
from archqa.tasks.fhir_agentbench.task import RecordResult
from archqa.tasks.fhir_agentbench.tools import (
    ExecutePythonCode,
    FhirRequestGet,
    GetResourceById,
    GetResourcesByPatientFhirId,
    GetResourcesByResourceId,
    RetrievedResources,
)
from archqa.tasks.pipeline import PipelineResult

FINAL_PHRASE = "the final answer is:"
"""The phrase that ends a conversation of several turns, in upper or lower case."""

NO_FINAL_ANSWER = "No final answer reached within iteration limit."

Tools = tuple[Tool[Any], ...]

_MAX_TOOL_NAME_CHARACTERS = 60
_MAX_EMPTY_REPLIES = 5
"""Empty replies in a row after which a turn fails (the benchmark's retries of one call)."""

_TOKENS_PER_MESSAGE = 4
_TOKENS_PER_PROMPT = 2
"""Tokens that the benchmark's count adds for each message, and once for the whole prompt."""


class RecordConversation(Conversation[RecordQuestionTask]):
    """A conversation about one question, and what was retrieved in it.

    A prompt of more tokens than the context limit raises `ContextTooLong`. `summaries` maps the text
    of resources in a message to its summary for the trace. With `summaries_only`, the model reads
    summaries of retrieved resources instead of their data.
    """

    def __init__(
        self,
        agent: Agent[RecordQuestionTask, FinalMessage],
        task: RecordQuestionTask,
        context: RunContext,
        settings: PublishedAgentSettings,
        *,
        summaries_only: bool = False,
    ) -> None:
        super().__init__(agent, task, context)
        self.record = context.store
        self.retrieved = RetrievedResources(official=settings.official)
        self.summaries: dict[str, str] = {}
        self._summaries_only = summaries_only
        self._max_tokens = settings.context_limit

    @property
    def tokens(self) -> int:
        """The prompt as the benchmark counts it, with characters / 4 for its tokenizer: tool calls
        do not count.
        """
        characters = sum(len(message.content) for message in self.messages)
        per_message = _TOKENS_PER_MESSAGE * len(self.messages)
        return characters // CHARACTERS_PER_TOKEN + per_message + _TOKENS_PER_PROMPT

    async def ask(self, tools: tuple[ToolSpec, ...] = ()) -> Reply:
        """The model's next turn; an empty one is asked for again.

        Raises `CaseFailed`, `ModelError`.
        """
        for _ in range(_MAX_EMPTY_REPLIES):
            tokens = self.tokens
            if tokens > self._max_tokens:
                excess = f"Input tokens exceeded: {tokens} > {self._max_tokens}"
                raise ContextTooLong(
                    f"{excess} (estimated: characters / {CHARACTERS_PER_TOKEN})"
                )
            reply = await self.next_reply(tools)
            if reply.finish not in {FinishReason.EMPTY, FinishReason.REASONING}:
                if not reply.tool_calls or reply.finish is not FinishReason.LENGTH:
                    check_finish(self._agent.name, reply)
                self.messages.append(reply.as_message)
                return reply
            self.add_prompt_text("repair/v1/empty.jinja")
        raise Unusable(
            f"{self._agent.name}: the model gave {_MAX_EMPTY_REPLIES} empty replies."
        )

    async def read_once(self, tool: Tool[Any]) -> str:
        """The answer after one turn with a tool and one without."""
        reply = await self.ask_for_tool_call(tool)
        await self.run_tools((tool,), reply.tool_calls)
        return (await self.ask()).text

    async def until_answered(self, tools: Tools, max_turns: int) -> str:
        """Turns until a message contains `FINAL_PHRASE`; its whole text is the answer."""
        specs = tuple(tool.spec for tool in tools)
        for _ in range(max_turns):
            reply = await self.ask(specs)
            await self.run_tools(tools, reply.tool_calls)
            if FINAL_PHRASE in reply.text.lower():
                return reply.text
        return NO_FINAL_ANSWER

    async def ask_for_tool_call(
        self, tool: Tool[Any], *, only_first: bool = False
    ) -> Reply:
        """A turn that calls the only tool offered; of the calls only the first may count.

        Raises `Unusable` with the benchmark's message if it does not.
        """
        reply = await self.ask((tool.spec,))
        if not reply.tool_calls:
            raise Unusable("No tool calls found in the response")
        calls = reply.tool_calls[:1] if only_first else reply.tool_calls
        for call in calls:
            if call.name != tool.name:
                name = call.name[:_MAX_TOOL_NAME_CHARACTERS]
                raise Unusable(f"Expected '{tool.name}' tool call, but got '{name}'")
        self.messages[-1] = self.messages[-1].model_copy(update={"tool_calls": calls})
        return reply.model_copy(update={"tool_calls": calls})

    async def run_tools(self, tools: Tools, calls: Iterable[ToolCall]) -> None:
        """Carry out tool calls and add their results, as the model reads them."""
        by_name = tools_by_name(tools)
        for call in calls:
            if call.name in by_name:
                tool = by_name[call.name]
                result = await asyncio.to_thread(tool.call, self.record, call.arguments)
            else:
                names = ", ".join(by_name)
                result = tool_error(
                    "tool", f"There is no tool of that name. There are: {names}."
                )
            self.retrieved.add(result)
            text = str(result.content)
            if result.resources:
                summary = self.retrieved.summarise(result)
                text = (
                    summary if self._summaries_only else self.retrieved.render(result)
                )
                self.summaries[text] = summary
            self.add_tool_result(text, call.id)

    async def result(self, answer: Awaitable[str]) -> PipelineResult:
        """The result with this answer; a failure carries what was retrieved before it."""
        text, failure = None, None
        try:
            text = await answer
        except CaseFailed as error:
            failure = error
        trace = []
        for message in self.messages[1:]:
            entry = message.model_dump()
            # The submission has a summary in place of record data, which the run's trace has.
            entry["content"] = self.summaries.get(message.content, message.content)
            trace.append(entry)
        result = RecordResult(
            answer=text,
            retrieved=self.retrieved.ids,
            cited=self.retrieved.mentioned_ids(text or ""),
            trace=tuple(trace),
            faults=dict(self.retrieved.faults),
        )
        if failure is not None:
            failure.result = result
            raise failure
        return PipelineResult(result=result)


async def single_turn_request(
    question: RecordQuestion, context: RunContext, settings: PublishedAgentSettings
) -> PipelineResult:
    """Searches that the model writes, once, side by side; then the answer."""
    task = record_task(question)
    conversation = RecordConversation(FhirRequestAgent(), task, context, settings)
    tool = FhirRequestGet(official=settings.official)
    return await conversation.result(conversation.read_once(tool))


async def single_turn_retriever(
    question: RecordQuestion, context: RunContext, settings: PublishedAgentSettings
) -> PipelineResult:
    """All resources of the types that the model names, once; then the answer."""
    task = record_task(question)
    conversation = RecordConversation(FhirRetrieverAgent(), task, context, settings)
    return await conversation.result(
        conversation.read_once(GetResourcesByPatientFhirId())
    )


async def single_turn_retriever_code(
    question: RecordQuestion, context: RunContext, settings: CodeAgentSettings
) -> PipelineResult:
    """Retrieve the types that the model names, run its code over them, and ask for the answer.

    Both happen once, and of the code only the first call counts; the model does not read the data.
    """
    task = record_task(question)
    conversation = RecordConversation(
        FhirRetrieverCodeAgent(), task, context, settings, summaries_only=True
    )

    async def answer() -> str:
        retrieval = GetResourcesByPatientFhirId()
        reply = await conversation.ask_for_tool_call(retrieval)
        await conversation.run_tools((retrieval,), reply.tool_calls)
        code = _python_tool(conversation, settings)
        reply = await conversation.ask_for_tool_call(code, only_first=True)
        await conversation.run_tools((code,), reply.tool_calls)
        return (await conversation.ask()).text

    return await conversation.result(answer())


async def multi_turn_retriever(
    question: RecordQuestion, context: RunContext, settings: MultiTurnSettings
) -> PipelineResult:
    """The model retrieves by patient and by id, as often as it needs, and reads all of it."""
    task = record_task(question)
    conversation = RecordConversation(FhirMultiTurnAgent(), task, context, settings)
    tools = _retrieval_tools(settings)
    return await conversation.result(
        conversation.until_answered(tools, settings.iterations)
    )


async def multi_turn_retriever_code(
    question: RecordQuestion, context: RunContext, settings: MultiTurnCodeSettings
) -> PipelineResult:
    """The model retrieves as often as it needs without reading data, and computes with code."""
    retrieval = _retrieval_tools(settings)
    task = record_task(question)
    return await answer_by_code(
        FhirMultiTurnCodeAgent(), task, context, settings, retrieval
    )


async def answer_by_code(
    agent: Agent[RecordQuestionTask, FinalMessage],
    task: RecordQuestionTask,
    context: RunContext,
    settings: MultiTurnCodeSettings,
    retrieval: Tools,
) -> PipelineResult:
    """Let an agent retrieve and compute in turns. Raises `CaseFailed`, `ModelError`."""
    conversation = RecordConversation(
        agent, task, context, settings, summaries_only=True
    )
    tools = (*retrieval, _python_tool(conversation, settings))
    return await conversation.result(
        conversation.until_answered(tools, settings.iterations)
    )


def record_task(question: RecordQuestion) -> RecordQuestionTask:
    """What an agent of the benchmark is told of a question."""
    return RecordQuestionTask(
        question=question.question,
        patient_fhir_id=question.patient_fhir_id,
        assumption=question.assumption,
    )


def _retrieval_tools(settings: PublishedAgentSettings) -> Tools:
    by_id = GetResourcesByResourceId() if settings.official else GetResourceById()
    return (GetResourcesByPatientFhirId(), by_id)


def _python_tool(
    conversation: RecordConversation, settings: CodeAgentSettings
) -> ExecutePythonCode:
    limits = SandboxLimits(
        seconds=settings.code_seconds, memory_mib=settings.code_memory_mib
    )
    return ExecutePythonCode(conversation.retrieved.resources, limits)
