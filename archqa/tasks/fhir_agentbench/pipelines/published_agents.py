"""The five agents of FHIR-AgentBench (Lee et al., ML4H 2025, §4; glee4810/FHIR-AgentBench at bbb4290).

    here                           there
    single-turn-request            single_turn_request
    single-turn-retriever          single_turn_resource
    single-turn-retriever-code     single_turn_code_resource
    multi-turn-retriever           multi_turn_resource
    multi-turn-retriever-code      multi_turn_code_resource

The setting `official` (on by default) keeps their quirks: a second search for a type replaces what the first found, a
GET sees one page, an id is searched for as `id`, resources are read raw. Not kept: code runs in a sandbox, what a tool
cannot do is said in words instead of ending the question, tokens are estimated as characters / 4.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from archqa.agents.agent import Agent, RunContext
from archqa.agents.tools.sandbox import SandboxLimits
from archqa.agents.tools.tool import Tool, ToolResult, tool_error, tools_by_name
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
)
from archqa.tasks.fhir_agentbench.python_tool import ExecutePythonCode
from archqa.tasks.fhir_agentbench.result import RecordResult, RetrievedResources
from archqa.tasks.fhir_agentbench.retrieval_tools import (
    FhirRequestGet,
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

BENCHMARK_AGENT_NAMES = {
    "single-turn-request": "single_turn_request",
    "single-turn-retriever": "single_turn_resource",
    "single-turn-retriever-code": "single_turn_code_resource",
    "multi-turn-retriever": "multi_turn_resource",
    "multi-turn-retriever-code": "multi_turn_code_resource",
}
"""Our pipelines' names, and the strategies' in the benchmark's code."""

PHRASE = "the final answer is:"
"""What ends a conversation of several turns, in any case."""

NO_FINAL_ANSWER = "No final answer reached within iteration limit."

Tools = tuple[Tool[Any], ...]


class _Work(NamedTuple):
    """One question under way. `pointers`: the model is told what was got, not shown it."""

    talk: FhirConversation
    record: Record
    retrieved: RetrievedResources
    told: dict[str, str]
    pointers: bool = False


async def single_turn_request(
    question: RecordQuestion, desk: RunContext, settings: PublishedAgentSettings
) -> PipelineResult:
    """Searches of its own making, once, side by side; then the answer."""

    async def steps(work: _Work) -> str:
        return await _read_once(work, (FhirRequestGet(official=settings.official),))

    return await _carried_out(steps, _begin(FhirRequestAgent(), question, desk, settings))


async def single_turn_retriever(
    question: RecordQuestion, desk: RunContext, settings: PublishedAgentSettings
) -> PipelineResult:
    """All resources of the types it names, once; then the answer."""

    async def steps(work: _Work) -> str:
        return await _read_once(work, (GetResourcesByPatientFhirId(),))

    return await _carried_out(steps, _begin(FhirRetrieverAgent(), question, desk, settings))


async def single_turn_retriever_code(
    question: RecordQuestion, desk: RunContext, settings: CodeAgentSettings
) -> PipelineResult:
    """All resources of the types it names, once, unseen; code over them, once; then the answer."""

    async def steps(work: _Work) -> str:
        return await _code_once(work, settings)

    work = _begin(FhirRetrieverCodeAgent(), question, desk, settings, pointers=True)
    return await _carried_out(steps, work)


async def multi_turn_retriever(
    question: RecordQuestion, desk: RunContext, settings: MultiTurnSettings
) -> PipelineResult:
    """Retrieves by patient and by id, as often as it needs, and reads all of it."""

    async def steps(work: _Work) -> str:
        return await _until_answered(work, _retrievers(settings), settings.iterations)

    return await _carried_out(steps, _begin(FhirMultiTurnAgent(), question, desk, settings))


async def multi_turn_retriever_code(
    question: RecordQuestion, desk: RunContext, settings: MultiTurnCodeSettings
) -> PipelineResult:
    """Retrieves as often as it needs without reading, and computes with code."""

    async def steps(work: _Work) -> str:
        tools = (*_retrievers(settings), _python(work, settings))
        return await _until_answered(work, tools, settings.iterations)

    return await _carried_out(
        steps, _begin(FhirMultiTurnCodeAgent(), question, desk, settings, pointers=True)
    )


def _begin(
    agent: Agent[RecordQuestionTask, FinalMessage],
    question: RecordQuestion,
    desk: RunContext,
    settings: PublishedAgentSettings,
    *,
    pointers: bool = False,
) -> _Work:
    fields = {"question": question.question, "assumption": question.assumption}
    task = RecordQuestionTask(patient_fhir_id=question.patient_fhir_id, **fields)
    talk = FhirConversation(agent, task, desk, settings.context_limit)
    return _Work(talk, desk.store, RetrievedResources(official=settings.official), {}, pointers)


async def _carried_out(steps: Callable[[_Work], Awaitable[str]], work: _Work) -> PipelineResult:
    """The ending; a failure takes along what had been retrieved before it."""
    try:
        answer = await steps(work)
    except CaseFailed as failure:
        failure.result = _result(work, None)
        raise
    return PipelineResult(result=_result(work, answer))


def _result(work: _Work, answer: str | None) -> RecordResult:
    return RecordResult(
        answer=answer,
        retrieved=work.retrieved.ids,
        cited=work.retrieved.mentioned_ids(answer or ""),
        trace=tuple(_turn(message, work.told) for message in work.talk.messages[1:]),
        faults=dict(work.retrieved.faults),
    )


def _turn(message: Message, told: dict[str, str]) -> dict[str, Any]:
    """A turn as the submission shows it: data of the record stay in the run's own trace."""
    return message.model_dump() | (
        {"content": told[message.content]} if message.content in told else {}
    )


async def _read_once(work: _Work, tools: Tools) -> str:
    """One turn with tools, one without."""
    reply = await _must_call(work, tools)
    for call in reply.tool_calls:
        await _use(work, tools, call)
    return (await work.talk.ask()).text


async def _code_once(work: _Work, settings: CodeAgentSettings) -> str:
    """A turn that retrieves, a turn that computes (only its first call counts), and a turn without tools."""
    retriever: Tools = (GetResourcesByPatientFhirId(),)
    for call in (await _must_call(work, retriever)).tool_calls:
        await _use(work, retriever, call)
    code: Tools = (_python(work, settings),)
    reply = await _must_call(work, code, only_first=True)
    work.talk.keep_first_tool_call()
    await _use(work, code, reply.tool_calls[0])
    return (await work.talk.ask()).text


async def _until_answered(work: _Work, tools: Tools, iterations: int) -> str:
    """Turns until a message holds the phrase; its whole text is the answer."""
    specs = tuple(tool.spec for tool in tools)
    for _ in range(iterations):
        reply = await work.talk.ask(specs)
        for call in reply.tool_calls:
            await _use(work, tools, call)
        if PHRASE in reply.text.lower():
            return reply.text
    return NO_FINAL_ANSWER


async def _must_call(work: _Work, tools: Tools, *, only_first: bool = False) -> Reply:
    """A turn that calls the one tool there is. Raises `Unusable` in the benchmark's words if it does not."""
    reply = await work.talk.ask(tuple(tool.spec for tool in tools))
    if not reply.tool_calls:
        raise Unusable("No tool calls found in the response")
    wanted = tools[0].name
    other = next(
        (
            call.name
            for call in reply.tool_calls[: 1 if only_first else None]
            if call.name != wanted
        ),
        None,
    )
    if other is not None:
        raise Unusable(f"Expected '{wanted}' tool call, but got '{other[:60]}'")
    return reply


async def _use(work: _Work, tools: Tools, call: ToolCall) -> None:
    """Do what a call asks for and tell what came of it."""
    found = tools_by_name(tools)
    given = (
        await asyncio.to_thread(found[call.name].call, work.record, call.arguments)
        if call.name in found
        else tool_error("tool", f"There is no tool of that name. There are: {', '.join(found)}.")
    )
    work.retrieved.add(given)
    work.talk.add_tool_result(_told(work, given), call.id)


def _told(work: _Work, given: ToolResult) -> str:
    pointers = work.retrieved.pointers(given)
    if not given.resources:
        return str(given.content)
    if work.pointers:
        return pointers
    shown = work.retrieved.render(given)
    work.told[shown] = pointers
    return shown


def _retrievers(settings: PublishedAgentSettings) -> Tools:
    return (GetResourcesByPatientFhirId(), GetResourcesByResourceId(official=settings.official))


def _python(work: _Work, settings: CodeAgentSettings) -> ExecutePythonCode:
    limits = SandboxLimits(seconds=settings.code_seconds, memory_mib=settings.code_memory_mib)
    return ExecutePythonCode(work.retrieved.resources, limits)
