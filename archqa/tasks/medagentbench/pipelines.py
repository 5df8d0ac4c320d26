"""Pipelines of MedAgentBench (Jiang et al., NEJM AI 2025).

Agents act on a record through the benchmark's conversation.

paper       the baseline: a model writes GET, POST and FINISH itself
typed       a model calls typed tools; each action is a turn of the same conversation
do-nothing  replies FINISH([]) at once
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from archqa.agents.agent import RunContext
from archqa.core.question import ClinicalTask
from archqa.errors import ArchqaError, CaseFailed, ContextTooLong, Refused, Unusable
from archqa.llm.model import FinishReason, Reply, ToolCall
from archqa.llm.prompts import default_prompts
from archqa.tasks.medagentbench.agents import (
    ClinicalConversation,
    MedAgentPaperAgent,
    MedAgentPaperTask,
    MedAgentTypedAgent,
    MedAgentTypedTask,
    function_inputs,
    load_functions,
)
from archqa.tasks.medagentbench.protocol import (
    COMPLETED,
    CONTEXT_LIMIT,
    INVALID_ACTION,
    LIMIT_REACHED,
    TASK_ERROR,
    Actions,
    TaskController,
    parse_turn,
)
from archqa.tasks.medagentbench.session import FHIR_BASE_URL, ClinicalSession
from archqa.tasks.medagentbench.settings import (
    ClinicalSettings,
    PaperAgentSettings,
    PayloadFormat,
    TypedAgentSettings,
)
from archqa.tasks.medagentbench.task import ConversationResult
from archqa.tasks.medagentbench.tools import ClinicalTool, clinical_tools
from archqa.tasks.medagentbench.write_checks import TaskText
from archqa.tasks.pipeline import Pipeline, PipelineResult, PipelineSettings

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
    paper_task = _paper_task(task, settings.functions)
    conversation = ClinicalConversation(MedAgentPaperAgent(), paper_task, context)

    async def take_turns(actions: Actions) -> None:
        while actions.controller.running:
            reply = _check_not_declined(await conversation.ask())
            answer = await asyncio.to_thread(actions.controller.handle_turn, reply.text)
            conversation.add_message(answer or "")

    return await _act(
        task, context, settings, conversation.first_user_message, take_turns
    )


async def typed(
    task: ClinicalTask, context: RunContext, settings: TypedAgentSettings
) -> PipelineResult:
    """A model with typed tools, until the task ends, it stops calling them, or no turn is left."""
    typed_task = MedAgentTypedTask(instruction=task.instruction, context=task.context)
    conversation = ClinicalConversation(MedAgentTypedAgent(), typed_task, context)

    async def take_turns(actions: Actions) -> None:
        controller = actions.controller
        tools = clinical_tools(actions)
        specs = tuple(tool.spec for tool in tools.values())
        idle_turns = 0
        for _ in range(_TOOL_TURNS_PER_ROUND * settings.rounds):
            reply = _check_not_declined(await conversation.ask(specs))
            for call in reply.tool_calls:
                result = await asyncio.to_thread(_call_tool, tools, actions, call)
                conversation.add_tool_result(result, call.id)
            idle_turns = 0 if reply.tool_calls else idle_turns + 1
            if idle_turns == _MAX_IDLE_TURNS:
                controller.end(INVALID_ACTION)
            if not controller.running:
                return
            if idle_turns:
                conversation.add_message(conversation.own_prompt_text("tool.jinja"))
        controller.end(LIMIT_REACHED)

    prompt = _prompt(_paper_task(task))
    return await _act(task, context, settings, prompt, take_turns, settings.shape)


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


async def _act(
    task: ClinicalTask,
    context: RunContext,
    settings: ClinicalSettings,
    prompt: str,
    take_turns: Callable[[Actions], Awaitable[None]],
    payload_format: PayloadFormat | None = None,
) -> PipelineResult:
    """The result of a conversation that begins with `prompt`, in which an agent acts on the record.

    A failure gives the conversation its status. Raises `Refused`, and `Unusable` if there was no
    FINISH, with the transcript.
    """
    session = ClinicalSession(
        context.store,
        TaskText(task.instruction, task.context),
        who=task.id,
        mode=settings.writes,
        audit=context.audit,
        confirm=context.confirm,
    )
    with session:
        controller = TaskController(prompt, session, settings.rounds)
        actions = Actions(controller, session, payload_format)
        failure: CaseFailed | None = None
        try:
            await take_turns(actions)
        except ContextTooLong:
            controller.end(CONTEXT_LIMIT)
        except Refused as refusal:
            controller.end(INVALID_ACTION)
            failure = refusal
        except CaseFailed as error:
            actions.remarks.append(str(error))
            controller.end(TASK_ERROR)
        if failure is None and controller.status != COMPLETED:
            failure = Unusable(
                f"The conversation ended with the status: {controller.status}."
            )
        result = ConversationResult(
            status=controller.status,
            result=controller.result,
            history=tuple(controller.history),
            explanation=actions.explanation,
            cited=_ids_by_type(actions.cited),
            retrieved=_ids_by_type(controller.resources_read),
            written=tuple(session.attempts),
            why_not=tuple(actions.remarks),
        )
        if failure is not None:
            failure.result = result
            raise failure
        return PipelineResult(result=result, remarks=tuple(actions.remarks))


def _call_tool(
    tools: dict[str, ClinicalTool[Any]], actions: Actions, call: ToolCall
) -> str:
    """The result of a tool call as JSON; errors, and an unknown tool, are results as well."""
    if call.name not in tools:
        error = f"There is no tool of that name. There are: {', '.join(tools)}."
        return json.dumps({"error": error})
    try:
        result = tools[call.name].call(actions.session.record, call.arguments)
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
    return default_prompts().render_text(
        f"{MedAgentPaperAgent.prompt}/user.jinja", dict(task)
    )


def _paper_task(task: ClinicalTask, functions: Path | None = None) -> MedAgentPaperTask:
    return MedAgentPaperTask(
        instruction=task.instruction,
        context=task.context,
        api_base=FHIR_BASE_URL,
        functions=load_functions(functions).text if functions else "",
    )


def _ids_by_type(references: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Ids by type of references such as `Observation/1`."""
    ids: dict[str, tuple[str, ...]] = {}
    for reference in references:
        resource_type, _, resource_id = reference.partition("/")
        ids[resource_type] = (*ids.get(resource_type, ()), resource_id)
    return ids


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
        inputs=lambda settings: function_inputs(settings.functions),
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
