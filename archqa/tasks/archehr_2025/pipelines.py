"""From a note to a cited answer: the six stages of DMIS Lab at ArchEHR-QA 2025 (paper §3.2).

A model performs them (`dmis`), or the embedded engine (`embedded`). Recruiting needs only the medical
context, so it runs concurrently with the screening; the specialists are shown the screening's labels.
"""

from collections.abc import Iterable
from typing import NamedTuple

from archqa.agents.agent import CaseTask, RunContext
from archqa.agents.answer import (
    CompressionAgent,
    CompressionTask,
    DecisionAgent,
    DecisionOutput,
    DecisionTask,
    SummaryAgent,
    SummaryTask,
    concatenate_question_and_evidence,
)
from archqa.agents.context import MedicalContextAgent
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.labelling import (
    BatchLabellingTask,
    GeneralExpertAgent,
    GeneralExpertBatchAgent,
    LabellingTask,
    SentenceLabellingTask,
    SpecialistAgent,
    SpecialistTask,
)
from archqa.agents.recruiting import RecruitingAgent, RecruitingTask
from archqa.core.answer import CitedAnswer
from archqa.core.case import Case, Sentence
from archqa.core.id_lists import list_ids
from archqa.core.judgement import Judgement
from archqa.errors import ArchqaError, CaseFailed, ContextTooLong, Truncated, Unusable
from archqa.tasks.archehr_2025.settings import DmisSettings, EmbeddedSettings
from archqa.tasks.pipeline import NoteResult, Pipeline, in_parallel

Judgements = tuple[Judgement, ...]

GENERAL_EXPERT = "general expert"


class _CaseState(NamedTuple):
    """One case in progress; `context` is the medical context K."""

    case: Case
    run_context: RunContext
    settings: DmisSettings
    remarks: list[str]
    failures: list[ArchqaError]
    context: str = ""

    def add_remark(self, remark: str, failure: ArchqaError) -> None:
        """Record a failure and its consequence for the run's report."""
        self.remarks.append(f"{remark} ({type(failure).__name__})")
        self.failures.append(failure)

    @property
    def labelling(self) -> LabellingTask:
        """What every agent that labels sentences is given."""
        return LabellingTask(
            case=self.case,
            context=self.context,
            labels=self.settings.labels,
            word_limit=self.settings.word_limit,
        )


async def dmis(
    case: Case, run_context: RunContext, settings: DmisSettings
) -> NoteResult:
    """Answer one case. Raises `CaseFailed` when no agent's judgements are left to answer from."""
    if not case.sentences:
        raise Unusable("The note has no sentences, so nothing can be cited.")
    state = _CaseState(case, run_context, settings, [], [])
    if settings.context:
        state = state._replace(context=await _medical_context(state))
    screening, experts = await in_parallel(_screen(state), _recruit(state))
    specialists = await _consult(state, experts, screening)
    judgements = {}
    for name, labels in {**screening, **specialists}.items():
        if labels:
            judgements[name] = labels
    if not judgements:
        raise Unusable(
            f"No agent could judge the note; the last failure: {state.failures[-1]}"
        )
    decision = await _decide(state, judgements)
    answer = await _format_answer(state, decision)
    return NoteResult(
        answer=answer,
        essential=decision.essential,
        judgements=judgements,
        context=state.context,
        experts=tuple(specialists),
        remarks=tuple(state.remarks),
    )


async def _medical_context(state: _CaseState) -> str:
    """The context K; empty, with a remark, if the agent fails."""
    try:
        output = await MedicalContextAgent().run(
            CaseTask(case=state.case), state.run_context
        )
    except CaseFailed as failure:
        state.add_remark("no medical context: the agent failed", failure)
        return ""
    shortened = output.shortened()
    if shortened != output.context:
        words = len(output.context.split())
        state.remarks.append(
            f"the medical context of {words} words was cut to {len(shortened.split())}"
        )
    return shortened


async def _screen(state: _CaseState) -> dict[str, Judgements]:
    """The general expert's labels of all sentences, one sentence a call or a batch."""
    sentences = state.case.sentences
    size = 1 if state.settings.screen == "per-sentence" else state.settings.batch_size
    calls = []
    for start in range(0, len(sentences), size):
        calls.append(_screen_part(state, sentences[start : start + size]))
    labels = await in_parallel(*calls)
    return {GENERAL_EXPERT: _concatenate(labels)}


async def _screen_part(
    state: _CaseState, sentences: tuple[Sentence, ...]
) -> Judgements:
    """The labels of one call; sentences that it fails on are left to the specialists."""
    labelling = dict(state.labelling)
    try:
        if state.settings.screen == "per-sentence":
            [sentence] = sentences
            task = SentenceLabellingTask(**labelling, sentence=sentence)
            verdict = await GeneralExpertAgent().run(task, state.run_context)
            return (verdict.judgement_of(sentence.id),)
        batch = BatchLabellingTask(**labelling, sentences=sentences)
        verdicts = await GeneralExpertBatchAgent().run(batch, state.run_context)
    except CaseFailed as failure:
        ids = list_ids([sentence.id for sentence in sentences])
        subject = (
            f"sentence {ids} is" if len(sentences) == 1 else f"sentences {ids} are"
        )
        state.add_remark(
            f"{subject} left to the specialists: the general expert failed", failure
        )
        return ()
    return verdicts.judgements()


async def _recruit(state: _CaseState) -> dict[str, Judgements]:
    """The specialties to be asked, without labels yet."""
    if not state.settings.experts:
        return {}
    task = RecruitingTask(
        case=state.case, context=state.context, most=state.settings.most_experts
    )
    try:
        recruited = await RecruitingAgent().run(task, state.run_context)
    except CaseFailed as failure:
        state.add_remark("no specialists: recruiting failed", failure)
        return {}
    return dict.fromkeys(recruited.experts, ())


async def _consult(
    state: _CaseState, experts: Iterable[str], screening: dict[str, Judgements]
) -> dict[str, Judgements]:
    """The labels of the specialists, by specialty; those who fail are absent."""
    tasks = []
    calls = []
    for name in experts:
        task = SpecialistTask.from_labels(state.labelling, name, screening)
        tasks.append(task)
        calls.append(_ask_specialist(state, task))
    labels_by_specialist = await in_parallel(*calls)
    consulted = {}
    for task, labels in zip(tasks, labels_by_specialist, strict=True):
        if labels is not None:
            consulted[task.specialty] = task.corrected(labels)
    return consulted


async def _ask_specialist(state: _CaseState, task: SpecialistTask) -> Judgements | None:
    """What one specialist states; None if the agent failed."""
    try:
        return await _specialist_labels(state, task)
    except CaseFailed as failure:
        state.add_remark(
            f"the specialist in {task.specialty} is left out: the agent failed", failure
        )
        return None


async def _specialist_labels(state: _CaseState, task: SpecialistTask) -> Judgements:
    """What one specialist states; a note that is too long for one call is split in halves."""
    sentences = task.case.sentences
    try:
        verdicts = await SpecialistAgent().run(task, state.run_context)
    except (ContextTooLong, Truncated) as failure:
        if len(sentences) < 2:
            raise
        state.add_remark(
            f"the specialist in {task.specialty} judges {len(sentences)} sentences in two halves",
            failure,
        )
    else:
        return verdicts.judgements()
    middle = len(sentences) // 2
    halves = []
    for part in (sentences[:middle], sentences[middle:]):
        half = task.case.model_copy(update={"sentences": part})
        halves.append(_specialist_labels(state, task.of_part(half)))
    return _concatenate(await in_parallel(*halves))


async def _decide(
    state: _CaseState, judgements: dict[str, Judgements]
) -> DecisionOutput:
    """The agent's decision; the embedded engine's, from the same judgements, if the agent fails."""
    task = DecisionTask(**dict(state.labelling), judgements=judgements)
    try:
        return await DecisionAgent().run(task, state.run_context)
    except (Unusable, Truncated, ContextTooLong) as failure:
        if not state.settings.fallback:
            raise
        state.add_remark(
            "the embedded engine decides from the judgements: the decision agent failed",
            failure,
        )
        return await EngineBackend().run(DecisionAgent(), task, state.run_context)


async def _format_answer(state: _CaseState, decision: DecisionOutput) -> CitedAnswer:
    """The answer in the form that the setting `strategy` asks for.

    One that is too long is shortened; it is extracted from the note if the agent fails.
    """
    case, context, limit = state.case, state.context, state.settings.word_limit
    essential = decision.essential
    if state.settings.strategy == "evidence":
        return concatenate_question_and_evidence(case, frozenset(essential))
    if state.settings.strategy == "summary":
        task = SummaryTask(
            case=case, context=context, essential=essential, word_limit=limit
        )
        summary = await SummaryAgent().run(task, state.run_context)
        return summary.as_answer()
    draft = decision.as_answer()
    if draft.words <= limit:
        return draft
    compression = CompressionTask(
        case=case, context=context, draft=draft, word_limit=limit
    )
    try:
        shorter = await CompressionAgent().run(compression, state.run_context)
    except CaseFailed as failure:
        state.add_remark(
            "the answer is extracted from the note: the agent could not shorten its own",
            failure,
        )
        shorter = await EngineBackend().run(
            CompressionAgent(), compression, state.run_context
        )
    return shorter.as_answer()


def _concatenate(parts: Iterable[Judgements]) -> Judgements:
    judgements: list[Judgement] = []
    for part in parts:
        judgements.extend(part)
    return tuple(judgements)


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

DMIS = Pipeline(
    name="dmis",
    summary="the six stages of DMIS Lab (ArchEHR-QA 2025), performed by a model",
    backend="model",
    run=dmis,
    prompts=tuple(agent.prompt for agent in _AGENTS),
    agents=tuple(dict.fromkeys(agent.name for agent in _AGENTS)),
    settings_type=DmisSettings,
)

CITED_ANSWER_PIPELINES = (
    DMIS,
    DMIS._replace(
        name="embedded",
        summary="the same stages, performed by the engine inside archqa",
        backend="embedded",
        settings_type=EmbeddedSettings,
    ),
)
