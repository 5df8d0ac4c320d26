"""Pipelines of ArchEHR-QA 2026 for subtasks 1 (what is asked) and 4 (what an answer rests on).

Subtasks 2 and 3 are done by the pipelines of 2025: every pipeline over notes selects evidence and
writes an answer.
"""

from typing import Any

from archqa.agents.agent import Agent, RunContext
from archqa.agents.alignment import AlignmentAgent, AlignmentTask
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.question_interpretation import (
    QuestionInterpretationAgent,
    QuestionInterpretationTask,
)
from archqa.core.case import Case
from archqa.errors import CaseFailed, Refused, Unusable
from archqa.tasks.archehr_2025.task import AnswerLinks, ArchehrResult
from archqa.tasks.archehr_2026.settings import AlignmentSettings
from archqa.tasks.pipeline import (
    Pipeline,
    PipelineFunction,
    PipelineResult,
    PipelineSettings,
)

_DECLINED = "The model declined; see the trace.\n--resume asks again."
"""These cases have one agent: if its refusal were final, nothing would be left to ask again."""


async def interpret(
    case: Case, context: RunContext, _: PipelineSettings
) -> PipelineResult:
    """Subtask 1: the clinician's question behind a patient's message, from the message alone."""
    if not case.patient_narrative.strip():
        raise Unusable("The case has no message to interpret.")
    task = QuestionInterpretationTask.from_case(case)
    try:
        output = await QuestionInterpretationAgent().run(task, context)
    except Refused:
        raise Unusable(_DECLINED) from None
    return PipelineResult(result=ArchehrResult(question=output.question))


async def align(
    case: Case, context: RunContext, settings: AlignmentSettings
) -> PipelineResult:
    """Subtask 4: the note sentences that each sentence of an answer rests on.

    The embedded engine links the answer if the agent fails, unless it declined.
    """
    if not case.answer_sentences:
        raise Unusable(
            "The case has no answer to link.\nName a key that holds the answers with --key FILE."
        )
    if not case.sentences:
        raise Unusable("The note has no sentences, so nothing can be linked.")
    task = AlignmentTask(case=case)
    remarks: tuple[str, ...] = ()
    try:
        output = await AlignmentAgent().run(task, context)
    except Refused:
        raise Unusable(_DECLINED) from None
    except CaseFailed as failure:
        if not settings.fallback:
            raise
        remarks = (
            f"the embedded engine links the answer: the agent failed ({type(failure).__name__})",
        )
        output = await EngineBackend().run(AlignmentAgent(), task, context)
    pairs = output.as_pairs()
    links = []
    for answer in case.answer_sentences:
        evidence = {
            sentence_id for answer_id, sentence_id in pairs if answer_id == answer.id
        }
        links.append(
            AnswerLinks(answer_id=answer.id, evidence_id=case.in_note_order(evidence))
        )
    return PipelineResult(result=ArchehrResult(links=tuple(links)), remarks=remarks)


def _by_model_and_engine(
    agent: type[Agent[Any, Any]],
    run: PipelineFunction,
    settings_type: type[PipelineSettings],
    summary: str,
) -> tuple[Pipeline, Pipeline]:
    """The pipeline of one agent, by a model and by the embedded engine."""
    by_model = Pipeline(
        name="dmis",
        summary=f"{summary}, by a model",
        backend="model",
        run=run,
        prompts=(agent.prompt,),
        agents=(agent.name,),
        settings_type=settings_type,
    )
    by_engine = by_model._replace(
        name="embedded", backend="embedded", summary=f"{summary}, by the engine"
    )
    return by_model, by_engine


INTERPRETATION_PIPELINES = _by_model_and_engine(
    QuestionInterpretationAgent, interpret, PipelineSettings, "subtask 1: what is asked"
)

ALIGNMENT_PIPELINES = _by_model_and_engine(
    AlignmentAgent, align, AlignmentSettings, "subtask 4: what an answer rests on"
)
