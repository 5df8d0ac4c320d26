"""ArchEHR-QA 2026: the two subtasks that are not evidence and answer: what is asked (1), what an answer rests on (4).

Subtasks 2 and 3 are parts of what every pipeline over notes makes of a case.
"""

from collections import Counter
from typing import Any

from archqa.agents.agent import Agent, RunContext
from archqa.agents.alignment import AlignmentAgent, AlignmentTask
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.question_interpretation import (
    QuestionInterpretationAgent,
    QuestionInterpretationTask,
)
from archqa.core.case import Case
from archqa.errors import ArchqaError, CaseFailed, ServerUnavailable, Unusable
from archqa.tasks.archehr_2026.result import AnswerLinks, ArchehrResult
from archqa.tasks.archehr_2026.settings import AlignmentSettings
from archqa.tasks.pipeline import (
    Pipeline,
    PipelineFunction,
    PipelineResult,
    PipelineSettings,
    in_parallel,
)

Pairs = frozenset[tuple[str, str]]


async def interpret(case: Case, desk: RunContext, _: PipelineSettings) -> PipelineResult:
    """Subtask 1: the clinician's question behind a message, of which nothing but the message is seen."""
    if not case.patient_narrative.strip():
        raise Unusable("The case has no message to interpret.")
    found = await QuestionInterpretationAgent().run(
        QuestionInterpretationTask.from_case(case), desk
    )
    return PipelineResult(result=ArchehrResult(question=found.question))


async def align(case: Case, desk: RunContext, settings: AlignmentSettings) -> PipelineResult:
    """Subtask 4: links that at least half of the voters hold; an answer sentence without any gets its likeliest."""
    if not case.answer_sentences:
        raise Unusable(
            "The case has no answer to link.\nName a key that holds the answers with --key FILE."
        )
    if not case.sentences:
        raise Unusable("The note has no sentences, so nothing can be linked.")
    lost: list[tuple[str, ArchqaError]] = []
    labels = list(desk.voters(AlignmentAgent.name))
    found = await in_parallel(*(_vote(case, desk, label, lost) for label in labels))
    votes = {label: pairs for label, pairs in zip(labels, found, strict=True) if pairs is not None}
    remarks = [f"the vote of {label} is lost ({type(failure).__name__})" for label, failure in lost]
    if not votes:
        if (
            any(isinstance(failure, ServerUnavailable) for _, failure in lost)
            or not settings.fallback
        ):
            raise lost[-1][1]
        votes = {"embedded": await _by_engine(case, desk)}
        remarks.append("the embedded engine links the answer: no other voter could")
    links = _links(case, majority_links(list(votes.values())))
    return PipelineResult(result=ArchehrResult(links=links), remarks=tuple(remarks))


def majority_links(votes: list[Pairs]) -> Pairs:
    """The links that half of the votes hold; for an answer sentence that has none of these, those held most often."""
    counts = Counter(pair for pairs in votes for pair in pairs)
    kept = {pair for pair, count in counts.items() if 2 * count >= len(votes)}
    linked = {answer for answer, _ in kept}
    bare = {answer for answer, _ in counts} - linked
    for answer in bare:
        most = max(count for pair, count in counts.items() if pair[0] == answer)
        kept |= {pair for pair, count in counts.items() if pair[0] == answer and count == most}
    return frozenset(kept)


async def _vote(
    case: Case, desk: RunContext, label: str, lost: list[tuple[str, ArchqaError]]
) -> Pairs | None:
    try:
        mind = desk.voters(AlignmentAgent.name)[label]
        return (await mind.run(AlignmentAgent(), AlignmentTask(case=case), desk)).as_pairs()
    except (CaseFailed, ServerUnavailable) as failure:
        lost.append((label, failure))
        return None


async def _by_engine(case: Case, desk: RunContext) -> Pairs:
    return (await EngineBackend().run(AlignmentAgent(), AlignmentTask(case=case), desk)).as_pairs()


def _links(case: Case, pairs: Pairs) -> tuple[AnswerLinks, ...]:
    links = []
    for answer in case.answer_sentences:
        evidence = {sentence_id for answer_id, sentence_id in pairs if answer_id == answer.id}
        links.append(AnswerLinks(answer_id=answer.id, evidence_id=case.in_note_order(evidence)))
    return tuple(links)


def _both_minds(
    agent: type[Agent[Any, Any]],
    run: PipelineFunction,
    settings_type: type[PipelineSettings],
    summary: str,
    multi_model_agents: tuple[str, ...] = (),
) -> tuple[Pipeline, Pipeline]:
    """The pipeline of one agent, by models and by the embedded engine."""
    by_model = Pipeline(
        name="panel",
        summary=f"{summary}, by a model",
        mind="model",
        run=run,
        prompts=(agent.prompt,),
        agents=(agent.name,),
        settings_type=settings_type,
        multi_model_agents=multi_model_agents,
    )
    by_engine = by_model._replace(
        name="embedded",
        mind="embedded",
        summary=f"{summary}, by the engine",
        multi_model_agents=(),
    )
    return by_model, by_engine


INTERPRETATION_PIPELINES = _both_minds(
    QuestionInterpretationAgent, interpret, PipelineSettings, "subtask 1: what is asked"
)

ALIGNMENT_PIPELINES = _both_minds(
    AlignmentAgent,
    align,
    AlignmentSettings,
    "subtask 4: what an answer rests on",
    multi_model_agents=(AlignmentAgent.name,),  # Links can be voted on, questions cannot.
)
