"""Pipelines of MedAgentBench (Jiang et al., NEJM AI 2025).

Agents act on a record through the benchmark's conversation.

paper       the baseline: a model writes GET, POST and FINISH itself
typed       a model calls typed tools; each action is a turn of the same conversation
do-nothing  replies FINISH([]) at once
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from archqa.agents.agent import RunContext
from archqa.core.question import ClinicalTask
from archqa.errors import ArchqaError, CaseFailed, ContextTooLong, Refused, Unusable
from archqa.llm.model import FinishReason, Reply
from archqa.llm.prompts import default_prompts
from archqa.tasks.medagentbench.agents import (
    ClinicalConversation,
    MedAgentPaperAgent,
    MedAgentPaperTask,
    MedAgentTypedAgent,
    MedAgentTypedTask,
)
from archqa.tasks.medagentbench.function_file import function_inputs, load_functions
from archqa.tasks.medagentbench.gateway import FHIR_BASE_URL
from archqa.tasks.medagentbench.protocol import (
    COMPLETED,
    CONTEXT_LIMIT,
    INVALID_ACTION,
    LIMIT_REACHED,
    TASK_ERROR,
    TaskController,
    parse_turn,
)
from archqa.tasks.medagentbench.result import ConversationResult
from archqa.tasks.medagentbench.session import ClinicalSession
from archqa.tasks.medagentbench.settings import (
    ClinicalSettings,
    PaperAgentSettings,
    PayloadFormat,
    TypedAgentSettings,
)
from archqa.tasks.medagentbench.tool_implementations import ToolImplementations
from archqa.tasks.medagentbench.tool_schemas import clinical_tools
from archqa.tasks.medagentbench.typed_tool import ClinicalTool
from archqa.tasks.medagentbench.write_checks import TaskText
from archqa.tasks.pipeline import Pipeline, PipelineInputs, PipelineResult, PipelineSettings

_MAX_IDLE_TURNS = 3
"""Replies in a row without a tool call after which the typed agent is stopped."""

_TOOL_TURNS_PER_ROUND = 3
"""Turns of the typed agent for each round of the benchmark.

Calculations and previews take no round.
"""


async def paper(
    task: ClinicalTask, context: RunContext, settings: PaperAgentSettings
) -> PipelineResult:
    """The benchmark's own agent: the model's reply is the turn."""
    conversation = ClinicalConversation(
        MedAgentPaperAgent(), _paper_task(task, settings.functions), context
    )
    with _open_task(task, context, settings, conversation.first_user_message) as tools:
        with _status_of_failures(tools):
            while tools.controller.running:
                reply = _check_not_declined(await conversation.ask())
                answer = await asyncio.to_thread(tools.controller.handle_turn, reply.text)
                conversation.add_message(answer or "")
        return _pipeline_result(tools)


async def typed(
    task: ClinicalTask, context: RunContext, settings: TypedAgentSettings
) -> PipelineResult:
    """A model with typed tools."""
    prompt = _prompt(_paper_task(task))
    with _open_task(task, context, settings, prompt, settings.shape) as tools:
        typed_task = MedAgentTypedTask(instruction=task.instruction, context=task.context)
        conversation = ClinicalConversation(MedAgentTypedAgent(), typed_task, context)
        with _status_of_failures(tools):
            await _call_tools(conversation, tools, _TOOL_TURNS_PER_ROUND * settings.rounds)
        return _pipeline_result(tools)


async def do_nothing(
    task: ClinicalTask, _context: RunContext, _settings: PipelineSettings
) -> PipelineResult:
    """Finishes at once without looking at a record: the score of an agent that does nothing."""
    finish = "FINISH([])"
    history = (
        {"role": "user", "content": _prompt(_paper_task(task))},
        {"role": "agent", "content": finish},
    )
    result = ConversationResult(
        status=COMPLETED,
        result=parse_turn(finish).body,
        history=history,
        explanation="Nothing was looked at and nothing done.",
        cited={},
    )
    return PipelineResult(result=result)


@contextmanager
def _open_task(
    task: ClinicalTask,
    context: RunContext,
    settings: ClinicalSettings,
    prompt: str,
    payload_format: PayloadFormat | None = None,
) -> Iterator[ToolImplementations]:
    """The tools of one task, on a conversation that begins with `prompt`."""
    session = ClinicalSession(
        context.store,
        TaskText(task.instruction, task.context),
        who=task.id,
        mode=settings.writes,
        audit=context.audit,
        confirm=context.confirm,
    )
    with session:
        controller = TaskController(prompt, session.gateway, session, settings.rounds)
        yield ToolImplementations(controller, session, payload_format)


@contextmanager
def _status_of_failures(tools: ToolImplementations) -> Iterator[None]:
    """Give the conversation the status of a failure; a failing server ends the task itself."""
    try:
        yield
    except ContextTooLong:
        tools.controller.end(CONTEXT_LIMIT)
    except Refused as failure:
        tools.controller.end(INVALID_ACTION)
        failure.result = _result(tools)
        raise
    except CaseFailed as failure:
        tools.remarks.append(str(failure))
        tools.controller.end(TASK_ERROR)


async def _call_tools(
    conversation: ClinicalConversation[MedAgentTypedTask],
    implementations: ToolImplementations,
    max_turns: int,
) -> None:
    """Let the model call tools until the task ends, it stops calling them, or no turn is left."""
    controller = implementations.controller
    tools = clinical_tools(implementations)
    specs = tuple(tool.spec for tool in tools.values())
    idle_turns = 0
    for _ in range(max_turns):
        reply = _check_not_declined(await conversation.ask(specs))
        for call in reply.tool_calls:
            result = await asyncio.to_thread(
                _call_tool, tools, implementations, call.name, call.arguments
            )
            conversation.add_tool_result(result, call.id)
        idle_turns = 0 if reply.tool_calls else idle_turns + 1
        if idle_turns == _MAX_IDLE_TURNS:
            controller.end(INVALID_ACTION)
        if not controller.running:
            return
        if idle_turns:
            conversation.add_message(conversation.own_prompt_text("tool.jinja"))
    controller.end(LIMIT_REACHED)


def _call_tool(
    tools: dict[str, ClinicalTool[Any]],
    implementations: ToolImplementations,
    name: str,
    arguments: str,
) -> str:
    """The result of a tool call as JSON; errors, and an unknown tool, are results as well."""
    if name not in tools:
        error = f"There is no tool of that name. There are: {', '.join(tools)}."
        return json.dumps({"error": error})
    try:
        result = tools[name].call(implementations.session.record, arguments)
        return json.dumps(result.content, ensure_ascii=False)
    except ArchqaError as failure:
        return json.dumps({"error": str(failure)})


def _check_not_declined(reply: Reply) -> Reply:
    """The reply. Raises `Refused` if the model or its provider declined."""
    if reply.finish in {FinishReason.REFUSED, FinishReason.FILTERED}:
        raise Refused(f"The model declined ({reply.finish}).")
    return reply


def _prompt(task: MedAgentPaperTask) -> str:
    """The benchmark's one message, which begins the transcript of the other agents too."""
    return default_prompts().render_text(f"{MedAgentPaperAgent.prompt}/user.jinja", dict(task))


def _paper_task(task: ClinicalTask, functions: Path | None = None) -> MedAgentPaperTask:
    return MedAgentPaperTask(
        instruction=task.instruction,
        context=task.context,
        api_base=FHIR_BASE_URL,
        functions=load_functions(functions).text if functions else "",
    )


def _paper_inputs(settings: PaperAgentSettings) -> PipelineInputs:
    return function_inputs(settings.functions)


def _pipeline_result(tools: ToolImplementations) -> PipelineResult:
    """The result of a completed conversation.

    Raises `Unusable` with the transcript if there was no FINISH.
    """
    if tools.controller.status != COMPLETED:
        failure = Unusable(f"The conversation ended with the status: {tools.controller.status}.")
        failure.result = _result(tools)
        raise failure
    return PipelineResult(result=_result(tools), remarks=tuple(tools.remarks))


def _result(tools: ToolImplementations) -> ConversationResult:
    """The benchmark's status, result and history, with explanation, citations, reads and writes."""
    return ConversationResult(
        status=tools.controller.status,
        result=tools.controller.result,
        history=tuple(tools.controller.history),
        explanation=tools.explanation,
        cited=_ids_by_type(tools.cited),
        retrieved=_ids_by_type(tools.controller.resources_read),
        written=tuple(tools.session.attempts),
        why_not=tuple(tools.remarks),
    )


def _ids_by_type(references: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Ids by type of references such as `Observation/1`."""
    ids = defaultdict(list)
    for reference in references:
        resource_type, _, resource_id = reference.partition("/")
        ids[resource_type].append(resource_id)
    return {resource_type: tuple(of_type) for resource_type, of_type in ids.items()}


CLINICAL_PIPELINES = (
    Pipeline(
        name="paper",
        summary="MedAgentBench's baseline: a model writes GET, POST and FINISH itself",
        backend="model",
        run=paper,
        prompts=(MedAgentPaperAgent.prompt,),
        agents=(MedAgentPaperAgent.name,),
        reads_notes=False,
        settings_type=PaperAgentSettings,
        fhir_profile="hapi",
        inputs=_paper_inputs,
    ),
    Pipeline(
        name="typed",
        summary="a model with typed tools for MedAgentBench: checked arguments, previewed writes",
        backend="model",
        run=typed,
        prompts=(MedAgentTypedAgent.prompt, MedAgentPaperAgent.prompt),
        agents=(MedAgentTypedAgent.name,),
        reads_notes=False,
        settings_type=TypedAgentSettings,
        fhir_profile="hapi",
    ),
    Pipeline(
        name="do-nothing",
        summary="replies FINISH([]) at once: the score of doing nothing on MedAgentBench",
        backend="script",
        run=do_nothing,
        prompts=(MedAgentPaperAgent.prompt,),
        agents=(),
        reads_notes=False,
        settings_type=PipelineSettings,
        fhir_profile="hapi",
        needs_record=False,
    ),
)
"""The pipelines of this task."""
