"""The mind inside archqa: performs the same agents with the evidence engine, no model server and no network."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from archqa.agents.agent import Agent, CaseTask, RunContext
from archqa.agents.answer import CompressionAgent, CompressionTask, SummaryAgent, SummaryTask
from archqa.agents.cited_lines import Lines
from archqa.agents.context import MedicalContext, MedicalContextAgent
from archqa.agents.decision import DecisionAgent, DecisionOutput, DecisionTask
from archqa.agents.engine_skills import ENGINE_IMPLEMENTATIONS
from archqa.agents.general_expert import (
    BatchLabellingTask,
    GeneralExpertAgent,
    GeneralExpertBatchAgent,
    SentenceLabellingTask,
)
from archqa.agents.labelling import SentenceVerdict, Verdict, Verdicts
from archqa.agents.recruiting import RecruitedExperts, RecruitingAgent, RecruitingTask
from archqa.agents.specialist import SpecialistAgent, SpecialistTask
from archqa.core.case import Case
from archqa.core.judgement import Judgement, Relevance
from archqa.core.probability import stated_probability
from archqa.core.step import Step
from archqa.core.value import FrozenModel
from archqa.engine import Engine
from archqa.errors import Unusable
from archqa.llm.structured import Rejected

Task = TypeVar("Task", bound=FrozenModel)
Output = TypeVar("Output", bound=FrozenModel)


class EngineBackend:
    """Performs the agents of one case; the note is judged once for each point of view."""

    kind = "embedded"

    def __init__(self, engine: Engine | None = None, operating_point: str = "f1") -> None:
        self._engine = engine or Engine.load()
        self._operating_point = operating_point
        self._judged: dict[str | None, asyncio.Task[tuple[Judgement, ...]]] = {}

    async def perform(self, agent: Agent[Task, Output], task: Task, desk: RunContext) -> Output:
        """Perform one task; the output passes the same check a model's must. Raises `Unusable`."""
        output = cast("Output", await self._skill(agent)(task))
        rejected = ""
        try:
            agent.check(task, output)
        except Rejected as why:
            rejected = str(why)
            mended = agent.mend(task, output)
            if mended is None:
                raise Unusable(
                    f"{agent.name}: the embedded engine's output fails its check."
                ) from None
            output = mended
        desk.record(self._step(agent, task, output, rejected))
        return output

    def _skill(self, agent: Agent[Any, Any]) -> Callable[[Any], Awaitable[FrozenModel]]:
        skills: dict[type[Agent[Any, Any]], Callable[[Any], Awaitable[FrozenModel]]] = {
            MedicalContextAgent: self._explain,
            GeneralExpertAgent: self._screen,
            GeneralExpertBatchAgent: self._screen_batch,
            RecruitingAgent: self._recruit,
            SpecialistAgent: self._specialise,
            DecisionAgent: self._decide,
            CompressionAgent: self._compress,
            SummaryAgent: self._summarise,
        }
        if type(agent) in ENGINE_IMPLEMENTATIONS:
            return lambda task: asyncio.to_thread(
                ENGINE_IMPLEMENTATIONS[type(agent)], self._engine, task
            )
        if type(agent) not in skills:
            raise Unusable(f"The embedded engine has no skill for the agent {agent.name}.")
        return skills[type(agent)]

    async def _judge(self, case: Case, specialty: str | None = None) -> tuple[Judgement, ...]:
        if specialty not in self._judged:
            work = asyncio.to_thread(self._engine.judge, case, specialty=specialty)
            self._judged[specialty] = asyncio.create_task(work)
        return await self._judged[specialty]

    async def _explain(self, task: CaseTask) -> MedicalContext:
        return MedicalContext(context=await asyncio.to_thread(self._engine.context, task.case))

    async def _screen(self, task: SentenceLabellingTask) -> Verdict:
        judged = {each.sentence_id: each for each in await self._judge(task.case)}
        return Verdict(**judged[task.sentence.id].model_dump(exclude={"sentence_id"}))

    async def _screen_batch(self, task: BatchLabellingTask) -> Verdicts:
        judged = await self._judge(task.case)
        return _verdicts(each for each in judged if each.sentence_id in task.wanted)

    async def _recruit(self, task: RecruitingTask) -> RecruitedExperts:
        names = await asyncio.to_thread(self._engine.specialties, task.case)
        return RecruitedExperts(experts=tuple(names)[: task.most])

    async def _specialise(self, task: SpecialistTask) -> Verdicts:
        return _verdicts(await self._judge(task.case, task.specialty))

    async def _decide(self, task: DecisionTask) -> DecisionOutput:
        chosen = self._engine.select(_consensus(task), self._operating_point)
        lines = await self._compose(task.case, chosen, task.word_limit)
        return DecisionOutput(
            answer=lines.answer, essential=task.case.in_note_order(lines.as_answer().cited)
        )

    async def _compress(self, task: CompressionTask) -> Lines:
        return await self._compose(task.case, task.draft.cited, task.word_limit)

    async def _summarise(self, task: SummaryTask) -> Lines:
        return await self._compose(task.case, frozenset(task.essential), task.word_limit)

    async def _compose(self, case: Case, chosen: frozenset[str], word_limit: int) -> Lines:
        return Lines.of(
            await asyncio.to_thread(self._engine.compose, case, chosen, word_limit=word_limit)
        )

    def _step(self, agent: Agent[Task, Output], task: Task, output: Output, rejected: str) -> Step:
        return Step(
            agent=agent.name,
            about=agent.about(task),
            mind=self.kind,
            model=f"embedded:{self._engine.fingerprint[:12]}",
            parsed=output.model_dump(mode="json"),
            rejected=rejected,
            mended=bool(rejected),
        )


def _verdicts(judgements: Any) -> Verdicts:
    return Verdicts(verdicts=tuple(SentenceVerdict(**each.model_dump()) for each in judgements))


def _consensus(task: DecisionTask) -> tuple[Judgement, ...]:
    """One judgement a sentence: the mean of what the agents who judged it hold its probability to be."""
    said: dict[str, list[float]] = {each: [] for each in task.case.sentence_ids}
    for judgements in task.judgements.values():
        for each in judgements:
            said[each.sentence_id].append(stated_probability(each))
    return tuple(
        Judgement(
            sentence_id=each,
            label=Relevance.NOT_RELEVANT,
            probability=sum(values) / len(values) if values else 0.0,
        )
        for each, values in said.items()
    )
