"""MedAgentBench's tasks (Jiang et al., NEJM AI 2025): an agent acts on a record through the benchmark's conversation.

paper       the baseline: a model writes GET, POST and FINISH itself
typed       a model calls typed tools; each act is a turn of the same conversation
scripted    a fixed policy with the same tools and no model
do-nothing  says FINISH([]) at once
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
from archqa.tasks.medagentbench.memory import load_corrections
from archqa.tasks.medagentbench.pipelines.scripted_policy import run_policy
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
    ClinicalToolSettings,
    PaperAgentSettings,
    PayloadFormat,
    TypedAgentSettings,
)
from archqa.tasks.medagentbench.tool_implementations import ActionFailed, ToolImplementations
from archqa.tasks.medagentbench.tool_schemas import clinical_tools
from archqa.tasks.medagentbench.typed_tool import ClinicalTool
from archqa.tasks.medagentbench.write_checks import TaskText
from archqa.tasks.pipeline import Pipeline, PipelineResult, PipelineSettings
from archqa.tasks.pipeline_inputs import PipelineInputs

_REMINDERS = 3
"""Replies in a row without any tool call after which the typed agent is given up."""


async def paper(
    task: ClinicalTask, desk: RunContext, settings: PaperAgentSettings
) -> PipelineResult:
    """The benchmark's own agent: what the model says is the turn."""
    talk = ClinicalConversation(MedAgentPaperAgent(), _paper_task(task, settings.functions), desk)
    with _at_work(task, desk, settings, talk.first_user_message) as hands:
        with _ending(hands):
            while hands.talk.running:
                reply = _willing(await talk.ask())
                answer = await asyncio.to_thread(hands.talk.say, reply.text)
                talk.add_message(answer or "")
        return _ended(hands)


async def typed(
    task: ClinicalTask, desk: RunContext, settings: TypedAgentSettings
) -> PipelineResult:
    """A model with typed tools."""
    with _at_work(task, desk, settings, _prompt(_paper_task(task)), settings.shape) as hands:
        memory = load_corrections(settings.memory, task.instruction) if settings.memory else ()
        told = MedAgentTypedTask(instruction=task.instruction, context=task.context, memory=memory)
        talk = ClinicalConversation(MedAgentTypedAgent(), told, desk)
        with _ending(hands):
            await _with_tools(talk, hands, most=3 * settings.rounds)
        return _ended(hands)


async def scripted(
    task: ClinicalTask, desk: RunContext, settings: ClinicalToolSettings
) -> PipelineResult:
    """The fixed policy."""
    with _at_work(task, desk, settings, _prompt(_paper_task(task)), settings.shape) as hands:
        with _ending(hands):
            await asyncio.to_thread(run_policy, hands.place.ask, hands)
        return _ended(hands)


async def do_nothing(
    task: ClinicalTask, _desk: RunContext, _settings: PipelineSettings
) -> PipelineResult:
    """What silence would score; no record is needed for it."""
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
def _at_work(
    task: ClinicalTask,
    desk: RunContext,
    settings: ClinicalSettings,
    prompt: str,
    shape: PayloadFormat | None = None,
) -> Iterator[ToolImplementations]:
    """The tools of one task; `prompt` is the first turn of its conversation."""
    ask = TaskText(task.instruction, task.context)
    place = ClinicalSession(
        desk.store, ask, who=task.id, mode=settings.writes, audit=desk.audit, confirm=desk.confirm
    )
    with place:
        yield ToolImplementations(
            TaskController(prompt, place.gateway, place, settings.rounds),
            place,
            shape,
        )


@contextmanager
def _ending(hands: ToolImplementations) -> Iterator[None]:
    """Gives the conversation the status that a failure means; what fails for want of a server ends the task itself."""
    try:
        yield
    except ContextTooLong:
        hands.talk.end(CONTEXT_LIMIT)
    except Refused as failure:
        hands.talk.end(INVALID_ACTION)
        failure.result = _result(hands)
        raise
    except (ActionFailed, CaseFailed) as failure:
        hands.remarks.append(str(failure))
        hands.talk.end(TASK_ERROR)


async def _with_tools(
    talk: ClinicalConversation[MedAgentTypedTask], hands: ToolImplementations, most: int
) -> None:
    tools = clinical_tools(hands)
    specs, idle = tuple(tool.spec for tool in tools.values()), 0
    for _ in range(most):
        reply = _willing(await talk.ask(specs))
        idle = 0 if reply.tool_calls else idle + 1
        if idle == _REMINDERS:
            hands.talk.end(INVALID_ACTION)
        for call in reply.tool_calls:
            said = await asyncio.to_thread(_called, tools, hands, call.name, call.arguments)
            talk.add_tool_result(said, call.id)
        if not hands.talk.running:
            return
        if not reply.tool_calls:
            talk.add_own_prompt_text("tool.jinja")
    hands.talk.end(LIMIT_REACHED)


def _called(
    tools: dict[str, ClinicalTool[Any]], hands: ToolImplementations, name: str, arguments: str
) -> str:
    """What a tool gives, as JSON; a tool there is not is told, too."""
    if name not in tools:
        return json.dumps(
            {"error": f"There is no tool of that name. There are: {', '.join(tools)}."}
        )
    try:
        return json.dumps(
            tools[name].call(hands.place.record, arguments).content, ensure_ascii=False
        )
    except ArchqaError as error:
        return json.dumps({"error": str(error)})


def _willing(reply: Reply) -> Reply:
    """The reply, unless the model or its provider declined. Raises `Refused`."""
    if reply.finish in {FinishReason.REFUSED, FinishReason.FILTERED}:
        raise Refused(f"The model declined ({reply.finish}).")
    return reply


def _prompt(task: MedAgentPaperTask) -> str:
    """The benchmark's one message, with which the transcript of every agent but the baseline begins."""
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


def _ended(hands: ToolImplementations) -> PipelineResult:
    """The ending. Raises `Unusable`, conversation and all, where the agent did not come to FINISH."""
    if hands.talk.status != COMPLETED:
        failure = Unusable(f"The conversation ended so: {hands.talk.status}.")
        failure.result = _result(hands)
        raise failure
    return PipelineResult(result=_result(hands), remarks=tuple(hands.remarks))


def _result(hands: ToolImplementations) -> ConversationResult:
    """What the benchmark keeps of a conversation; beside it the explanation, what it cites and what was read."""
    return ConversationResult(
        status=hands.talk.status,
        result=hands.talk.result,
        history=tuple(hands.talk.history),
        explanation=hands.explanation,
        cited=_by_type(hands.cited),
        retrieved=_by_type(hands.talk.read),
        written=tuple(hands.place.attempts),
        why_not=tuple(hands.remarks),
    )


def _by_type(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Ids by type of names such as `Observation/1`."""
    found = defaultdict(list)
    for name in names:
        kind, _, resource_id = name.partition("/")
        found[kind].append(resource_id)
    return {kind: tuple(ids) for kind, ids in found.items()}


CLINICAL_PIPELINES = (
    Pipeline(
        name="paper",
        summary="MedAgentBench's baseline: a model writes GET, POST and FINISH itself",
        mind="model",
        run=paper,
        prompts=(MedAgentPaperAgent.prompt,),
        agents=(MedAgentPaperAgent.name,),
        reads_notes=False,
        settings_type=PaperAgentSettings,
        ways="hapi",
        inputs=_paper_inputs,
    ),
    Pipeline(
        name="typed",
        summary="a model with typed tools for MedAgentBench: checked arguments, calculator, writes held as intents",
        mind="model",
        run=typed,
        prompts=(MedAgentTypedAgent.prompt, MedAgentPaperAgent.prompt),
        agents=(MedAgentTypedAgent.name,),
        reads_notes=False,
        settings_type=TypedAgentSettings,
        ways="hapi",
    ),
    Pipeline(
        name="do-nothing",
        summary="says FINISH([]) at once: what silence scores on MedAgentBench",
        mind="script",
        run=do_nothing,
        prompts=(MedAgentPaperAgent.prompt,),
        agents=(),
        reads_notes=False,
        settings_type=PipelineSettings,
        ways="hapi",
        needs_record=False,
    ),
    Pipeline(
        name="scripted",
        summary="a fixed policy for MedAgentBench with the typed tools: proves environment and graders, no model score",
        mind="script",
        run=scripted,
        prompts=(MedAgentPaperAgent.prompt,),
        agents=(),
        reads_notes=False,
        settings_type=ClinicalToolSettings,
        ways="hapi",
    ),
)
"""The pipelines of this task."""
