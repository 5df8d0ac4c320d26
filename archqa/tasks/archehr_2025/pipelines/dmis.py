"""The six stages of DMIS Lab at ArchEHR-QA 2025 (paper §3.2).

Recruiting needs only the medical context, so it runs concurrently with the screening; the specialists are shown
the screening's labels.
"""

from collections.abc import Iterable

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
from archqa.agents.labelling import LabellingTask
from archqa.agents.recruiting import RecruitingAgent, RecruitingTask
from archqa.agents.specialist import SpecialistAgent, SpecialistTask
from archqa.core.case import Case, Sentence
from archqa.core.id_lists import list_ids
from archqa.core.judgement import Judgement
from archqa.errors import CaseFailed, ContextTooLong, Truncated, Unusable
from archqa.tasks.archehr_2025.pipelines.shared import (
    CaseState,
    format_answer,
    medical_context,
    split_case,
)
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


async def dmis(case: Case, run_context: RunContext, settings: DmisSettings) -> NoteResult:
    """Answer one case. Raises `CaseFailed` when no agent's judgements are left to answer from."""
    if not case.sentences:
        raise Unusable("The note has no sentences, so nothing can be cited.")
    state = CaseState(case, run_context, settings, [])
    context = await medical_context(state) if settings.context else ""
    screening, experts = await in_parallel(_screen(state, context), _recruit(state, context))
    panel = await _consult(state, context, experts, screening)
    judgements = {}
    for name, labels in {**screening, **panel}.items():
        if labels:
            judgements[name] = labels
    if not judgements:
        raise Unusable("No agent could judge the note; see the trace.")
    task = DecisionTask(
        case=case,
        context=context,
        judgements=judgements,
        labels=settings.labels,
        word_limit=settings.word_limit,
    )
    decision = await _decide(state, task)
    answer = await format_answer(state, context, decision.as_answer(), decision.essential)
    return NoteResult(
        answer=answer,
        essential=decision.essential,
        judgements=judgements,
        context=context,
        experts=tuple(panel),
        remarks=tuple(state.remarks),
    )


async def _screen(state: CaseState, context: str) -> dict[str, Judgements]:
    """The general expert's labels; a sentence it fails on is left to the specialists."""
    if state.settings.screen == "per-sentence":
        screenings = [
            _screen_sentence(state, context, sentence) for sentence in state.case.sentences
        ]
    else:
        screenings = [_screen_batch(state, context, batch) for batch in _batches(state)]
    return {GENERAL_EXPERT: _concatenate(await in_parallel(*screenings))}


async def _screen_sentence(state: CaseState, context: str, sentence: Sentence) -> Judgements:
    task = SentenceLabellingTask(
        case=state.case,
        context=context,
        labels=state.settings.labels,
        word_limit=state.settings.word_limit,
        sentence=sentence,
    )
    try:
        verdict = await GeneralExpertAgent().run(task, state.run_context)
    except CaseFailed as failure:
        state.add_remark(
            f"sentence {sentence.id} is left to the specialists: the general expert failed", failure
        )
        return ()
    return (verdict.judgement_of(sentence.id),)


async def _screen_batch(
    state: CaseState, context: str, sentences: tuple[Sentence, ...]
) -> Judgements:
    task = BatchLabellingTask(
        case=state.case,
        context=context,
        labels=state.settings.labels,
        word_limit=state.settings.word_limit,
        sentences=sentences,
    )
    try:
        verdicts = await GeneralExpertBatchAgent().run(task, state.run_context)
    except CaseFailed as failure:
        ids = list_ids(task.requested_ids)
        state.add_remark(
            f"sentences {ids} are left to the specialists: the general expert failed", failure
        )
        return ()
    return verdicts.judgements()


def _batches(state: CaseState) -> list[tuple[Sentence, ...]]:
    sentences = state.case.sentences
    size = state.settings.batch_size
    return [sentences[start : start + size] for start in range(0, len(sentences), size)]


async def _recruit(state: CaseState, context: str) -> dict[str, Judgements]:
    """The specialties to be asked, without labels yet."""
    if not state.settings.experts:
        return {}
    task = RecruitingTask(case=state.case, context=context, most=state.settings.most_experts)
    try:
        panel = await RecruitingAgent().run(task, state.run_context)
    except CaseFailed as failure:
        state.add_remark("no specialists: recruiting failed", failure)
        return {}
    return dict.fromkeys(panel.experts, ())


async def _consult(
    state: CaseState,
    context: str,
    experts: Iterable[str],
    screening: dict[str, Judgements],
) -> dict[str, Judgements]:
    """The labels of the specialists, by specialty; those who fail are absent."""
    labelling = LabellingTask(
        case=state.case,
        context=context,
        labels=state.settings.labels,
        word_limit=state.settings.word_limit,
    )
    tasks = [SpecialistTask.from_labels(labelling, name, screening) for name in experts]
    labels_by_specialist = await in_parallel(*(_ask_specialist(state, task) for task in tasks))
    return {
        task.specialty: task.corrected(labels)
        for task, labels in zip(tasks, labels_by_specialist, strict=True)
        if labels is not None
    }


async def _ask_specialist(state: CaseState, task: SpecialistTask) -> Judgements | None:
    """What one specialist states; None if the agent failed."""
    try:
        return await _specialist_labels(state, task)
    except CaseFailed as failure:
        state.add_remark(
            f"the specialist in {task.specialty} is left out: the agent failed", failure
        )
        return None


async def _specialist_labels(state: CaseState, task: SpecialistTask) -> Judgements:
    """What one specialist states; a note that is too long for one call is split in halves."""
    try:
        verdicts = await SpecialistAgent().run(task, state.run_context)
    except (ContextTooLong, Truncated) as failure:
        if len(task.case.sentences) < 2:
            raise
        state.add_remark(
            f"the specialist in {task.specialty} judges {len(task.case.sentences)} sentences in "
            "two halves",
            failure,
        )
    else:
        return verdicts.judgements()
    halves = [_specialist_labels(state, task.of_part(half)) for half in split_case(task.case)]
    return _concatenate(await in_parallel(*halves))


async def _decide(state: CaseState, task: DecisionTask) -> DecisionOutput:
    """The agent's decision; the embedded engine's, from the same judgements, if the agent fails."""
    try:
        return await DecisionAgent().run(task, state.run_context)
    except (Unusable, Truncated, ContextTooLong) as failure:
        if not state.settings.fallback:
            raise
        state.add_remark(
            "the embedded engine decides from the judgements: the decision agent failed", failure
        )
        return await EngineBackend().run(DecisionAgent(), task, state.run_context)


def _concatenate(parts: Iterable[Judgements]) -> Judgements:
    judgements: list[Judgement] = []
    for part in parts:
        judgements.extend(part)
    return tuple(judgements)
