"""How the embedded engine does the work of each agent that reads a note, without a model server."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from archqa.agents.agent import Agent, CaseTask
from archqa.agents.alignment import AlignmentAgent, AlignmentTask, AnswerLinks, EvidenceLinks
from archqa.agents.answer import CompressionAgent, CompressionTask, SummaryAgent, SummaryTask
from archqa.agents.cited_lines import Lines
from archqa.agents.context import MedicalContext, MedicalContextAgent
from archqa.agents.decision import DecisionAgent, DecisionOutput, DecisionTask
from archqa.agents.general_expert import (
    BatchLabellingTask,
    GeneralExpertAgent,
    GeneralExpertBatchAgent,
    SentenceLabellingTask,
)
from archqa.agents.labelling import SentenceVerdict, Verdict, Verdicts
from archqa.agents.question_interpretation import (
    ClinicianQuestion,
    QuestionInterpretationAgent,
    QuestionInterpretationTask,
)
from archqa.agents.recruiting import RecruitedExperts, RecruitingAgent, RecruitingTask
from archqa.agents.specialist import SpecialistAgent, SpecialistTask
from archqa.core.case import Case
from archqa.core.judgement import Judgement, Relevance
from archqa.core.probability import mean_probabilities
from archqa.core.value import FrozenModel
from archqa.engine import Engine
from archqa.engine.answer_linking import predict_links
from archqa.engine.question import derive_clinician_question


class EngineSession:
    """The engine at work on one case, off the event loop.

    A note is assessed once for each specialty.
    """

    def __init__(self, engine: Engine, operating_point: str) -> None:
        self.engine = engine
        self.operating_point = operating_point
        self._assessments: dict[tuple[Case, str], asyncio.Task[tuple[Judgement, ...]]] = {}

    async def judgements(self, case: Case, specialty: str = "") -> tuple[Judgement, ...]:
        """The engine's judgement of each sentence, seen from a specialty if one is named."""
        key = (case, specialty)
        if key not in self._assessments:
            assessment = asyncio.to_thread(self.engine.judge, case, specialty=specialty or None)
            self._assessments[key] = asyncio.create_task(assessment)
        return await self._assessments[key]

    async def write(self, case: Case, chosen: frozenset[str], word_limit: int) -> Lines:
        """An extractive answer that rests on the chosen sentences."""
        answer = await asyncio.to_thread(self.engine.compose, case, chosen, word_limit=word_limit)
        return Lines.from_answer(answer)


async def explain(session: EngineSession, task: CaseTask) -> MedicalContext:
    """The medical context of a case."""
    return MedicalContext(context=await asyncio.to_thread(session.engine.context, task.case))


async def screen(session: EngineSession, task: SentenceLabellingTask) -> Verdict:
    """The verdict on one sentence."""
    for judgement in await session.judgements(task.case):
        if judgement.sentence_id == task.sentence.id:
            return Verdict.from_judgement(judgement)
    raise KeyError(task.sentence.id)


async def screen_batch(session: EngineSession, task: BatchLabellingTask) -> Verdicts:
    """The verdicts on several sentences."""
    requested = []
    for judgement in await session.judgements(task.case):
        if judgement.sentence_id in task.requested_ids:
            requested.append(judgement)
    return _verdicts(requested)


async def recruit(session: EngineSession, task: RecruitingTask) -> RecruitedExperts:
    """The specialties that fit the case best."""
    specialties = await asyncio.to_thread(session.engine.specialties, task.case)
    return RecruitedExperts(experts=tuple(specialties)[: task.most])


async def label_as_specialist(session: EngineSession, task: SpecialistTask) -> Verdicts:
    """The verdicts from the view of a specialty."""
    return _verdicts(await session.judgements(task.case, task.specialty))


async def decide(session: EngineSession, task: DecisionTask) -> DecisionOutput:
    """An answer from the sentences whose mean probability is high enough."""
    chosen = session.engine.select(_consensus(task), session.operating_point)
    lines = await session.write(task.case, chosen, task.word_limit)
    essential = task.case.in_note_order(lines.as_answer().cited)
    return DecisionOutput(answer=lines.answer, essential=essential)


async def compress(session: EngineSession, task: CompressionTask) -> Lines:
    """A shorter answer from the sentences that the draft cites."""
    return await session.write(task.case, task.draft.cited, task.word_limit)


async def summarise(session: EngineSession, task: SummaryTask) -> Lines:
    """An answer from the essential sentences."""
    return await session.write(task.case, frozenset(task.essential), task.word_limit)


async def interpret_question(
    _: EngineSession, task: QuestionInterpretationTask
) -> ClinicianQuestion:
    """The message's own questions in the third person."""
    question = await asyncio.to_thread(
        derive_clinician_question,
        task.case.patient_narrative,
        task.word_limit,
    )
    return ClinicianQuestion(question=question)


async def align(_: EngineSession, task: AlignmentTask) -> EvidenceLinks:
    """The links that the fitted linker predicts."""
    evidence: dict[str, set[str]] = {answer_id: set() for answer_id in task.answer_ids}
    for answer_id, sentence_id in await asyncio.to_thread(predict_links, task.case):
        evidence[answer_id].add(sentence_id)
    links = []
    for answer_id, sentence_ids in evidence.items():
        answer_links = AnswerLinks(
            rationale="by the linker",
            answer_id=answer_id,
            evidence_id=task.case.in_note_order(sentence_ids),
        )
        links.append(answer_links)
    return EvidenceLinks(links=tuple(links))


Skill = Callable[[EngineSession, Any], Awaitable[FrozenModel]]

ENGINE_SKILLS: dict[type[Agent[Any, Any]], Skill] = {
    MedicalContextAgent: explain,
    GeneralExpertAgent: screen,
    GeneralExpertBatchAgent: screen_batch,
    RecruitingAgent: recruit,
    SpecialistAgent: label_as_specialist,
    DecisionAgent: decide,
    CompressionAgent: compress,
    SummaryAgent: summarise,
    QuestionInterpretationAgent: interpret_question,
    AlignmentAgent: align,
}
"""The agents that the engine can run. A dry run estimates later prompts with them."""


def _verdicts(judgements: Iterable[Judgement]) -> Verdicts:
    return Verdicts(verdicts=tuple(map(SentenceVerdict.from_judgement, judgements)))


def _consensus(task: DecisionTask) -> tuple[Judgement, ...]:
    """A judgement of each sentence with the mean of its stated probabilities; 0 without any."""
    means = mean_probabilities(task.judgements)
    judgements = []
    for sentence_id in task.case.sentence_ids:
        judgement = Judgement(
            sentence_id=sentence_id,
            label=Relevance.NOT_RELEVANT,
            probability=means.get(sentence_id, 0.0),
        )
        judgements.append(judgement)
    return tuple(judgements)
