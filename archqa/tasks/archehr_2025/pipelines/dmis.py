"""The six stages of DMIS Lab at ArchEHR-QA 2025 (paper §3.2).

Recruiting and the specialists need only the context, so they run beside the screening.
"""

from archqa.agents.agent import RunContext
from archqa.agents.answer import CompressionAgent, SummaryAgent
from archqa.agents.context import MedicalContextAgent
from archqa.agents.decision import DecisionAgent, DecisionOutput, DecisionTask
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.general_expert import (
    BatchLabellingTask,
    GeneralExpertAgent,
    GeneralExpertBatchAgent,
    SentenceLabellingTask,
)
from archqa.agents.recruiting import RecruitingAgent, RecruitingTask
from archqa.agents.specialist import SpecialistAgent, SpecialistTask
from archqa.core.case import Case, Sentence
from archqa.core.judgement import Judgement
from archqa.errors import CaseFailed, ContextTooLong, Truncated, Unusable
from archqa.tasks.archehr_2025.pipelines.shared import CaseState, format_answer, medical_context
from archqa.tasks.archehr_2025.settings import DmisSettings
from archqa.tasks.pipeline import NoteResult, in_parallel

Judgements = tuple[Judgement, ...]

GENERAL_EXPERT = "general expert"

_AGENTS = (
    MedicalContextAgent,
    GeneralExpertAgent,
    GeneralExpertBatchAgent,
    RecruitingAgent,
    SpecialistAgent,
    DecisionAgent,
    CompressionAgent,
    SummaryAgent,
)
AGENTS = tuple(dict.fromkeys(agent.name for agent in _AGENTS))
PROMPTS = tuple(agent.prompt for agent in _AGENTS)
"""The prompts of the six stages."""


async def dmis(case: Case, desk: RunContext, settings: DmisSettings) -> NoteResult:
    """Answer one case. Raises `CaseFailed` when there is nothing left to answer from."""
    if not case.sentences:
        raise Unusable("The note has no sentences, so nothing can be cited.")
    work = CaseState(case, desk, settings, [])
    context = await medical_context(work) if settings.context else ""
    screened, panel = await in_parallel(_screen(work, context), _panel(work, context))
    judgements = {name: labels for name, labels in {**screened, **panel}.items() if labels}
    if not judgements:
        raise Unusable("No agent could judge the note; see the trace.")
    task = DecisionTask(
        case=case, context=context, judgements=judgements, word_limit=settings.word_limit
    )
    decided = await _decision(work, task)
    answer = await format_answer(work, context, decided.as_answer(), decided.essential)
    return NoteResult(
        answer=answer,
        essential=decided.essential,
        judgements=judgements,
        context=context,
        experts=tuple(panel),
        remarks=tuple(work.remarks),
    )


async def _screen(work: CaseState[DmisSettings], context: str) -> dict[str, Judgements]:
    """The general expert's labels; a sentence it fails on is left to the specialists."""
    if work.settings.screen == "per-sentence":
        found = await in_parallel(
            *(_screen_one(work, context, each) for each in work.case.sentences)
        )
    else:
        found = await in_parallel(*(_screen_batch(work, context, each) for each in _batches(work)))
    return {GENERAL_EXPERT: tuple(judgement for judgements in found for judgement in judgements)}


async def _screen_one(
    work: CaseState[DmisSettings], context: str, sentence: Sentence
) -> Judgements:
    task = SentenceLabellingTask(
        case=work.case, context=context, labels=work.settings.labels, sentence=sentence
    )
    try:
        verdict = await GeneralExpertAgent().run(task, work.desk)
    except CaseFailed as failure:
        work.add_remark(
            f"sentence {sentence.id} is left to the specialists: the general expert failed", failure
        )
        return ()
    return (verdict.judgement_of(sentence.id),)


async def _screen_batch(
    work: CaseState[DmisSettings], context: str, sentences: tuple[Sentence, ...]
) -> Judgements:
    task = BatchLabellingTask(
        case=work.case, context=context, labels=work.settings.labels, sentences=sentences
    )
    try:
        return (await GeneralExpertBatchAgent().run(task, work.desk)).judgements()
    except CaseFailed as failure:
        ids = ", ".join(task.requested_ids)
        work.add_remark(
            f"sentences {ids} are left to the specialists: the general expert failed", failure
        )
        return ()


def _batches(work: CaseState[DmisSettings]) -> list[tuple[Sentence, ...]]:
    sentences, size = work.case.sentences, work.settings.batch_size
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


async def _panel(work: CaseState[DmisSettings], context: str) -> dict[str, Judgements]:
    """Each recruited specialist's labels, by specialty; those who fail are left out."""
    if not work.settings.experts:
        return {}
    task = RecruitingTask(case=work.case, context=context, most=work.settings.most_experts)
    try:
        panel = await RecruitingAgent().run(task, work.desk)
    except CaseFailed as failure:
        work.add_remark("no specialists: recruiting failed", failure)
        return {}
    found = await in_parallel(*(_specialist(work, context, each) for each in panel.experts))
    return {name: labels for name, labels in zip(panel.experts, found, strict=True) if labels}


async def _specialist(work: CaseState[DmisSettings], context: str, specialty: str) -> Judgements:
    try:
        return await _specialist_on(work, context, specialty, work.case)
    except CaseFailed as failure:
        work.add_remark(f"the specialist in {specialty} is left out: the agent failed", failure)
        return ()


async def _specialist_on(
    work: CaseState[DmisSettings], context: str, specialty: str, case: Case
) -> Judgements:
    """The labels of one specialist; a note that is too long for one call is judged half by half."""
    task = SpecialistTask(
        case=case, context=context, labels=work.settings.labels, specialty=specialty
    )
    try:
        return (await SpecialistAgent().run(task, work.desk)).judgements()
    except (ContextTooLong, Truncated) as failure:
        if len(case.sentences) < 2:
            raise
        work.add_remark(
            f"the specialist in {specialty} judges {len(case.sentences)} sentences in two halves",
            failure,
        )
        halves = (_specialist_on(work, context, specialty, half) for half in _halves(case))
        return tuple(judgement for half in await in_parallel(*halves) for judgement in half)


def _halves(case: Case) -> tuple[Case, Case]:
    middle = len(case.sentences) // 2
    parts = (case.sentences[:middle], case.sentences[middle:])
    first, second = (case.model_copy(update={"sentences": part}) for part in parts)
    return first, second


async def _decision(work: CaseState[DmisSettings], task: DecisionTask) -> DecisionOutput:
    """The agent's decision; the embedded engine's, from the same judgements, when the agent cannot make one."""
    try:
        return await DecisionAgent().run(task, work.desk)
    except (Unusable, Truncated, ContextTooLong) as failure:
        if not work.settings.fallback:
            raise
        work.add_remark(
            "the embedded engine decides from the judgements: the decision agent failed", failure
        )
        return await EngineBackend().run(DecisionAgent(), task, work.desk)
