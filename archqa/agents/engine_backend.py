"""Runs agents with the embedded evidence engine: no model server and no network."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

from archqa.agents.agent import (
    Agent,
    CaseTask,
    Output,
    RunContext,
    SingleReplyBackend,
    Task,
    step_of,
)
from archqa.agents.alignment import (
    AlignmentAgent,
    AlignmentTask,
    AnswerLinks,
    EvidenceLinks,
)
from archqa.agents.answer import (
    CompressionAgent,
    DecisionAgent,
    DecisionOutput,
    DecisionTask,
    Lines,
    ShortAnswerTask,
    SummaryAgent,
)
from archqa.agents.context import MedicalContext, MedicalContextAgent
from archqa.agents.labelling import (
    BatchLabellingTask,
    GeneralExpertAgent,
    GeneralExpertBatchAgent,
    SentenceLabellingTask,
    SentenceVerdict,
    SpecialistAgent,
    SpecialistTask,
    Verdict,
    Verdicts,
)
from archqa.agents.question_interpretation import (
    ClinicianQuestion,
    QuestionInterpretationAgent,
    QuestionInterpretationTask,
)
from archqa.agents.recruiting import RecruitedExperts, RecruitingAgent, RecruitingTask
from archqa.core.case import Case
from archqa.core.judgement import Judgement, Relevance, mean_probabilities
from archqa.core.value import FrozenModel
from archqa.engine import Engine
from archqa.engine.answer_linking import predict_links
from archqa.engine.question import derive_clinician_question
from archqa.errors import Unusable


class EngineBackend(SingleReplyBackend):
    """Runs the agents of one case, off the event loop; a note is assessed once for each specialty."""

    kind = "embedded"

    def __init__(
        self, engine: Engine | None = None, operating_point: str = "f1"
    ) -> None:
        self.engine = engine or Engine.load()
        self.operating_point = operating_point
        self._assessments: dict[
            tuple[Case, str], asyncio.Task[tuple[Judgement, ...]]
        ] = {}

    async def run(
        self, agent: Agent[Task, Output], task: Task, context: RunContext
    ) -> Output:
        """Run one task; the output passes the same check as a model's. Raises `Unusable`."""
        skill = ENGINE_SKILLS.get(type(agent))
        if skill is None:
            raise Unusable(f"The embedded engine cannot run the agent {agent.name}.")
        written = cast("Output", await skill(self, task))
        output, rejected = agent.checked(task, written)
        if output is None:
            raise Unusable(
                f"{agent.name}: the embedded engine's output fails its check."
            )
        model = f"embedded:{self.engine.fingerprint[:12]}"
        context.record_step(
            step_of(agent, task, output, rejected, backend=self.kind, model=model)
        )
        return output

    async def judgements(
        self, case: Case, specialty: str = ""
    ) -> tuple[Judgement, ...]:
        """The engine's judgement of each sentence, seen from a specialty if one is named."""
        key = (case, specialty)
        if key not in self._assessments:
            assessment = asyncio.to_thread(
                self.engine.judge, case, specialty=specialty or None
            )
            self._assessments[key] = asyncio.create_task(assessment)
        return await self._assessments[key]

    async def write(self, case: Case, chosen: frozenset[str], word_limit: int) -> Lines:
        """An extractive answer that rests on the chosen sentences."""
        answer = await asyncio.to_thread(
            self.engine.compose, case, chosen, word_limit=word_limit
        )
        return Lines.from_answer(answer)


async def explain(backend: EngineBackend, task: CaseTask) -> MedicalContext:
    """The medical context of a case."""
    return MedicalContext(
        context=await asyncio.to_thread(backend.engine.context, task.case)
    )


async def screen(backend: EngineBackend, task: SentenceLabellingTask) -> Verdict:
    """The verdict on one sentence."""
    for judgement in await backend.judgements(task.case):
        if judgement.sentence_id == task.sentence.id:
            return Verdict.from_judgement(judgement)
    raise KeyError(task.sentence.id)


async def screen_batch(backend: EngineBackend, task: BatchLabellingTask) -> Verdicts:
    """The verdicts on several sentences."""
    requested = []
    for judgement in await backend.judgements(task.case):
        if judgement.sentence_id in task.requested_ids:
            requested.append(judgement)
    return _verdicts(requested)


async def recruit(backend: EngineBackend, task: RecruitingTask) -> RecruitedExperts:
    """The specialties that fit the case best."""
    specialties = await asyncio.to_thread(backend.engine.specialties, task.case)
    return RecruitedExperts(experts=tuple(specialties)[: task.most])


async def label_as_specialist(backend: EngineBackend, task: SpecialistTask) -> Verdicts:
    """The verdicts from the view of a specialty."""
    return _verdicts(await backend.judgements(task.case, task.specialty))


async def decide(backend: EngineBackend, task: DecisionTask) -> DecisionOutput:
    """An answer from the sentences whose mean probability is high enough; 0 without any."""
    means = mean_probabilities(task.judgements)
    consensus = []
    for sentence_id in task.case.sentence_ids:
        judgement = Judgement(
            sentence_id=sentence_id,
            label=Relevance.NOT_RELEVANT,
            probability=means.get(sentence_id, 0.0),
        )
        consensus.append(judgement)
    chosen = backend.engine.select(tuple(consensus), backend.operating_point)
    lines = await backend.write(task.case, chosen, task.word_limit)
    essential = task.case.in_note_order(lines.as_answer().cited)
    return DecisionOutput(answer=lines.answer, essential=essential)


async def write_short_answer(backend: EngineBackend, task: ShortAnswerTask) -> Lines:
    """An answer from the sentences that it must cite."""
    return await backend.write(task.case, task.required_citations, task.word_limit)


async def interpret_question(
    _: EngineBackend, task: QuestionInterpretationTask
) -> ClinicianQuestion:
    """The message's own questions in the third person."""
    question = await asyncio.to_thread(
        derive_clinician_question,
        task.case.patient_narrative,
        task.word_limit,
    )
    return ClinicianQuestion(question=question)


async def align(_: EngineBackend, task: AlignmentTask) -> EvidenceLinks:
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


Skill = Callable[[EngineBackend, Any], Awaitable[FrozenModel]]

ENGINE_SKILLS: dict[type[Agent[Any, Any]], Skill] = {
    MedicalContextAgent: explain,
    GeneralExpertAgent: screen,
    GeneralExpertBatchAgent: screen_batch,
    RecruitingAgent: recruit,
    SpecialistAgent: label_as_specialist,
    DecisionAgent: decide,
    CompressionAgent: write_short_answer,
    SummaryAgent: write_short_answer,
    QuestionInterpretationAgent: interpret_question,
    AlignmentAgent: align,
}
"""The agents that the engine can run. A dry run estimates later prompts with them."""


def _verdicts(judgements: Iterable[Judgement]) -> Verdicts:
    return Verdicts(verdicts=tuple(map(SentenceVerdict.from_judgement, judgements)))
