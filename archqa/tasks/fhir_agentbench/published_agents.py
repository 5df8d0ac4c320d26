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
from typing import Any, NamedTuple

from archqa.agents.agent import Agent, RunContext
from archqa.agents.sandbox import SandboxLimits
from archqa.agents.tools import Tool, tool_error, tools_by_name
from archqa.core.question import RecordQuestion
from archqa.errors import CaseFailed, Unusable
from archqa.fhir import Record
from archqa.llm.model import Reply, ToolCall
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
    state = _start(FhirRequestAgent(), question, context, settings)
    tools = (FhirRequestGet(official=settings.official),)
    return await _result(state, _read_once(state, tools))


async def single_turn_retriever(
    question: RecordQuestion, context: RunContext, settings: PublishedAgentSettings
) -> PipelineResult:
    """All resources of the types that the model names, once; then the answer."""
    state = _start(FhirRetrieverAgent(), question, context, settings)
    return await _result(state, _read_once(state, (GetResourcesByPatientFhirId(),)))


async def single_turn_retriever_code(
    question: RecordQuestion, context: RunContext, settings: CodeAgentSettings
) -> PipelineResult:
    """Retrieve the types that the model names, run its code over them, and ask for the answer.

    Both happen once, and of the code only the first call counts; the model does not read the data.
    """
    state = _start(FhirRetrieverCodeAgent(), question, context, settings, summaries_only=True)

    async def answer() -> str:
        retrieval: Tools = (GetResourcesByPatientFhirId(),)
        reply = await _ask_for_tool_call(state, retrieval)
        await _run_tools(state, retrieval, reply.tool_calls)
        code: Tools = (_python_tool(state, settings),)
        reply = await _ask_for_tool_call(state, code, only_first=True)
        state.conversation.keep_first_tool_call()
        await _run_tools(state, code, reply.tool_calls[:1])
        return (await state.conversation.ask()).text

    return await _result(state, answer())


async def multi_turn_retriever(
    question: RecordQuestion, context: RunContext, settings: MultiTurnSettings
) -> PipelineResult:
    """The model retrieves by patient and by id, as often as it needs, and reads all of it."""
    state = _start(FhirMultiTurnAgent(), question, context, settings)
    answer = _until_answered(state, _retrieval_tools(settings), settings.iterations)
    return await _result(state, answer)


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
    state = _start(
        agent,
        question,
        context,
        settings,
        summaries_only=True,
        type_counts=type_counts,
        leaves_out_later_rows=leaves_out_later_rows,
    )
    tools = (*retrieval, _python_tool(state, settings))
    return await _result(state, _until_answered(state, tools, settings.iterations))


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


async def _result(state: _State, answer: Awaitable[str]) -> PipelineResult:
    """The result of a conversation; a failure carries what was retrieved before it."""
    text, failure = None, None
    try:
        text = await answer
    except CaseFailed as error:
        failure = error
    trace = []
    for message in state.conversation.messages[1:]:
        entry = message.model_dump()
        # The submission has a summary in place of record data, which the run's own trace has.
        entry["content"] = state.summaries.get(message.content, message.content)
        trace.append(entry)
    result = RecordResult(
        answer=text,
        retrieved=state.retrieved.ids,
        cited=state.retrieved.mentioned_ids(text or ""),
        trace=tuple(trace),
        faults=dict(state.retrieved.faults),
    )
    if failure is not None:
        failure.result = result
        raise failure
    return PipelineResult(result=result)


async def _read_once(state: _State, tools: Tools) -> str:
    """One turn with tools, one without."""
    reply = await _ask_for_tool_call(state, tools)
    await _run_tools(state, tools, reply.tool_calls)
    return (await state.conversation.ask()).text


async def _until_answered(state: _State, tools: Tools, max_turns: int) -> str:
    """Turns until a message contains `FINAL_PHRASE`; its whole text is the answer."""
    specs = tuple(tool.spec for tool in tools)
    for _ in range(max_turns):
        reply = await state.conversation.ask(specs)
        await _run_tools(state, tools, reply.tool_calls)
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


async def _run_tools(state: _State, tools: Tools, calls: Iterable[ToolCall]) -> None:
    """Carry out tool calls and add their results to the conversation, as the model reads them."""
    by_name = tools_by_name(tools)
    for call in calls:
        if call.name in by_name:
            result = await asyncio.to_thread(by_name[call.name].call, state.record, call.arguments)
        else:
            names = ", ".join(by_name)
            result = tool_error("tool", f"There is no tool of that name. There are: {names}.")
        state.retrieved.add(result)
        text = str(result.content)
        if result.resources:
            summary = state.retrieved.summarise(result)
            text = summary if state.summaries_only else state.retrieved.render(result)
            state.summaries[text] = summary
        state.conversation.add_tool_result(text, call.id)


def _retrieval_tools(settings: PublishedAgentSettings) -> Tools:
    by_id = GetResourcesByResourceId() if settings.official else GetResourceById()
    return (GetResourcesByPatientFhirId(), by_id)


def _python_tool(state: _State, settings: CodeAgentSettings) -> ExecutePythonCode:
    limits = SandboxLimits(seconds=settings.code_seconds, memory_mib=settings.code_memory_mib)
    return ExecutePythonCode(state.retrieved.resources, limits)
