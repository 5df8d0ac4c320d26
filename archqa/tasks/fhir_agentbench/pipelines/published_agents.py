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
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from archqa.agents.agent import Agent, RunContext
from archqa.agents.sandbox import SandboxLimits
from archqa.agents.tools import Tool, ToolResult, tool_error, tools_by_name
from archqa.core.question import RecordQuestion
from archqa.errors import CaseFailed, Unusable
from archqa.fhir import Record
from archqa.llm.model import Message, Reply, ToolCall
from archqa.tasks.fhir_agentbench.agents import (
    FhirConversation,
    FhirMultiTurnAgent,
    FhirMultiTurnCodeAgent,
    FhirRequestAgent,
    FhirRetrieverAgent,
    FhirRetrieverCodeAgent,
    FinalMessage,
    RecordQuestionTask,
    TypeCount,
)
from archqa.tasks.fhir_agentbench.python_tool import ExecutePythonCode
from archqa.tasks.fhir_agentbench.result import RecordResult, RetrievedResources
from archqa.tasks.fhir_agentbench.retrieval_tools import (
    FhirRequestGet,
    GetResourceById,
    GetResourcesByPatientFhirId,
    GetResourcesByResourceId,
)
from archqa.tasks.fhir_agentbench.settings import (
    CodeAgentSettings,
    MultiTurnCodeSettings,
    MultiTurnSettings,
    PublishedAgentSettings,
)
from archqa.tasks.pipeline import PipelineResult

FINAL_PHRASE = "the final answer is:"
"""The phrase that ends a conversation of several turns, in upper or lower case."""

NO_FINAL_ANSWER = "No final answer reached within iteration limit."

Tools = tuple[Tool[Any], ...]
_MAX_TOOL_NAME_CHARACTERS = 60


class _State(NamedTuple):
    """One question in progress.

    `summaries` maps the text of resources in a message to its summary for the trace.

    With `summaries_only`, the model reads summaries of retrieved resources instead of their data.
    """

    conversation: FhirConversation
    record: Record
    retrieved: RetrievedResources
    summaries: dict[str, str]
    summaries_only: bool = False


async def single_turn_request(
    question: RecordQuestion, context: RunContext, settings: PublishedAgentSettings
) -> PipelineResult:
    """Searches that the model writes, once, side by side; then the answer."""

    async def answer(state: _State) -> str:
        return await _read_once(state, (FhirRequestGet(official=settings.official),))

    return await _run(answer, _start(FhirRequestAgent(), question, context, settings))


async def single_turn_retriever(
    question: RecordQuestion, context: RunContext, settings: PublishedAgentSettings
) -> PipelineResult:
    """All resources of the types that the model names, once; then the answer."""

    async def answer(state: _State) -> str:
        return await _read_once(state, (GetResourcesByPatientFhirId(),))

    return await _run(answer, _start(FhirRetrieverAgent(), question, context, settings))


async def single_turn_retriever_code(
    question: RecordQuestion, context: RunContext, settings: CodeAgentSettings
) -> PipelineResult:
    """Retrieve the types that the model names, run its code over them, and ask for the answer.

    Both happen once; the model does not read the data.
    """

    async def answer(state: _State) -> str:
        return await _code_once(state, _python_tool(state, settings))

    state = _start(FhirRetrieverCodeAgent(), question, context, settings, summaries_only=True)
    return await _run(answer, state)


async def multi_turn_retriever(
    question: RecordQuestion, context: RunContext, settings: MultiTurnSettings
) -> PipelineResult:
    """The model retrieves by patient and by id, as often as it needs, and reads all of it."""

    async def answer(state: _State) -> str:
        return await _until_answered(state, _retrieval_tools(settings), settings.iterations)

    return await _run(answer, _start(FhirMultiTurnAgent(), question, context, settings))


async def multi_turn_retriever_code(
    question: RecordQuestion, context: RunContext, settings: MultiTurnCodeSettings
) -> PipelineResult:
    """The model retrieves as often as it needs without reading data, and computes with code."""

    retrieval = _retrieval_tools(settings)
    return await answer_by_code(FhirMultiTurnCodeAgent(), question, context, settings, retrieval)


async def answer_by_code(
    agent: Agent[RecordQuestionTask, FinalMessage],
    question: RecordQuestion,
    context: RunContext,
    settings: MultiTurnCodeSettings,
    retrieval: Tools,
    *,
    type_counts: tuple[TypeCount, ...] = (),
    leaves_out_later_rows: bool = False,
) -> PipelineResult:
    """Let an agent retrieve and compute in turns. Raises `CaseFailed`, `ModelError`."""

    async def answer(state: _State) -> str:
        tools = (*retrieval, _python_tool(state, settings))
        return await _until_answered(state, tools, settings.iterations)

    state = _start(
        agent,
        question,
        context,
        settings,
        summaries_only=True,
        type_counts=type_counts,
        leaves_out_later_rows=leaves_out_later_rows,
    )
    return await _run(answer, state)


def _start(
    agent: Agent[RecordQuestionTask, FinalMessage],
    question: RecordQuestion,
    context: RunContext,
    settings: PublishedAgentSettings,
    *,
    summaries_only: bool = False,
    type_counts: tuple[TypeCount, ...] = (),
    leaves_out_later_rows: bool = False,
) -> _State:
    task = RecordQuestionTask(
        question=question.question,
        patient_fhir_id=question.patient_fhir_id,
        assumption=question.assumption,
        type_counts=type_counts,
        leaves_out_later_rows=leaves_out_later_rows,
    )
    return _State(
        FhirConversation(agent, task, context, settings.context_limit),
        context.store,
        RetrievedResources(official=settings.official),
        {},
        summaries_only,
    )


async def _run(answer: Callable[[_State], Awaitable[str]], state: _State) -> PipelineResult:
    """The result of a strategy; a failure carries what was retrieved before it."""
    try:
        text = await answer(state)
    except CaseFailed as failure:
        failure.result = _result(state, None)
        raise
    return PipelineResult(result=_result(state, text))


def _result(state: _State, answer: str | None) -> RecordResult:
    messages = state.conversation.messages[1:]
    return RecordResult(
        answer=answer,
        retrieved=state.retrieved.ids,
        cited=state.retrieved.mentioned_ids(answer or ""),
        trace=tuple(_trace_entry(message, state.summaries) for message in messages),
        faults=dict(state.retrieved.faults),
    )


def _trace_entry(message: Message, summaries: dict[str, str]) -> dict[str, Any]:
    """A message for the submission, record data replaced by its summary.

    The run's own trace has the data.
    """
    entry = message.model_dump()
    if message.content in summaries:
        entry["content"] = summaries[message.content]
    return entry


async def _read_once(state: _State, tools: Tools) -> str:
    """One turn with tools, one without."""
    reply = await _ask_for_tool_call(state, tools)
    for call in reply.tool_calls:
        await _run_tool(state, tools, call)
    return (await state.conversation.ask()).text


async def _code_once(state: _State, python_tool: ExecutePythonCode) -> str:
    """A turn that retrieves, one that computes (only its first call counts), one without tools."""
    retrieval: Tools = (GetResourcesByPatientFhirId(),)
    retrieval_reply = await _ask_for_tool_call(state, retrieval)
    for call in retrieval_reply.tool_calls:
        await _run_tool(state, retrieval, call)
    code: Tools = (python_tool,)
    code_reply = await _ask_for_tool_call(state, code, only_first=True)
    state.conversation.keep_first_tool_call()
    await _run_tool(state, code, code_reply.tool_calls[0])
    return (await state.conversation.ask()).text


async def _until_answered(state: _State, tools: Tools, max_turns: int) -> str:
    """Turns until a message contains `FINAL_PHRASE`; its whole text is the answer."""
    specs = tuple(tool.spec for tool in tools)
    for _ in range(max_turns):
        reply = await state.conversation.ask(specs)
        for call in reply.tool_calls:
            await _run_tool(state, tools, call)
        if FINAL_PHRASE in reply.text.lower():
            return reply.text
    return NO_FINAL_ANSWER


async def _ask_for_tool_call(state: _State, tools: Tools, *, only_first: bool = False) -> Reply:
    """A turn that calls the only tool offered.

    Raises `Unusable` with the benchmark's message if it does not.
    """
    reply = await state.conversation.ask(tuple(tool.spec for tool in tools))
    if not reply.tool_calls:
        raise Unusable("No tool calls found in the response")
    expected = tools[0].name
    calls = reply.tool_calls[:1] if only_first else reply.tool_calls
    for call in calls:
        if call.name != expected:
            name = call.name[:_MAX_TOOL_NAME_CHARACTERS]
            raise Unusable(f"Expected '{expected}' tool call, but got '{name}'")
    return reply


async def _run_tool(state: _State, tools: Tools, call: ToolCall) -> None:
    """Carry out a tool call and add its result to the conversation."""
    by_name = tools_by_name(tools)
    if call.name in by_name:
        result = await asyncio.to_thread(by_name[call.name].call, state.record, call.arguments)
    else:
        names = ", ".join(by_name)
        result = tool_error("tool", f"There is no tool of that name. There are: {names}.")
    state.retrieved.add(result)
    state.conversation.add_tool_result(_message(state, result), call.id)


def _message(state: _State, result: ToolResult) -> str:
    """The result of a tool as the model reads it."""
    if not result.resources:
        return str(result.content)
    summary = state.retrieved.summarise(result)
    if state.summaries_only:
        return summary
    text = state.retrieved.render(result)
    state.summaries[text] = summary
    return text


def _retrieval_tools(settings: PublishedAgentSettings) -> Tools:
    by_id = GetResourcesByResourceId() if settings.official else GetResourceById()
    return (GetResourcesByPatientFhirId(), by_id)


def _python_tool(state: _State, settings: CodeAgentSettings) -> ExecutePythonCode:
    limits = SandboxLimits(seconds=settings.code_seconds, memory_mib=settings.code_memory_mib)
    return ExecutePythonCode(state.retrieved.resources, limits)
