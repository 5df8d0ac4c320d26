"""The panel: votes on each sentence, a selection, an answer from it, and a second look at close choices.

Evidence is selected before the answer is written, which has beaten the six stages since (ArchEHR-QA 2025 and
2026). The answer is written from the selected set, and again if the second look changes that.
"""

from archqa.agents.agent import PromptingBackend, RunContext
from archqa.agents.answer import CompressionAgent, SummaryAgent
from archqa.agents.answer_first import AnswerFirstAgent
from archqa.agents.context import MedicalContextAgent
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.evidence_writing import EvidenceDecisionAgent, EvidenceDecisionTask
from archqa.agents.question_interpretation import (
    QuestionInterpretationAgent,
    QuestionInterpretationTask,
)
from archqa.agents.recruiting import RecruitingAgent
from archqa.agents.verification import VerificationAgent, VerificationTask
from archqa.agents.voting import GeneralVotingAgent, SpecialistVotingAgent
from archqa.core.answer import CitedAnswer
from archqa.core.case import Case
from archqa.core.judgement import Judgement
from archqa.errors import CaseFailed, ContextTooLong, ServerUnavailable, Truncated, Unusable
from archqa.panel.decision import (
    VERIFICATION,
    EvidenceSelection,
    apply_checks,
    pool_votes,
    select_evidence,
    voter_name,
)
from archqa.tasks.archehr_2025.pipelines.panel_votes import collect_votes
from archqa.tasks.archehr_2025.pipelines.shared import CaseState, format_answer, medical_context
from archqa.tasks.archehr_2025.settings import NotePanelSettings
from archqa.tasks.archehr_2026.result import ArchehrResult
from archqa.tasks.pipeline import NoteResult, Pipeline

_AGENTS = (
    MedicalContextAgent,
    GeneralVotingAgent,
    RecruitingAgent,
    SpecialistVotingAgent,
    AnswerFirstAgent,
    VerificationAgent,
    EvidenceDecisionAgent,
    CompressionAgent,
    SummaryAgent,
    QuestionInterpretationAgent,
)
AGENTS = tuple(dict.fromkeys(agent.name for agent in _AGENTS))
PROMPTS = tuple(agent.prompt for agent in _AGENTS)
"""The prompts of the panel."""

Verification = dict[str, tuple[Judgement, ...]]
"""Judgements of the verification, by the name of its voter."""


async def panel(case: Case, run_context: RunContext, settings: NotePanelSettings) -> NoteResult:
    """Answer one case. Raises `CaseFailed` or `ServerUnavailable` when no model of the panel could vote."""
    if not case.sentences:
        raise Unusable("The note has no sentences, so nothing can be cited.")
    state = CaseState(case, run_context, settings, [])
    is_question_withheld = not case.clinician_question.strip()
    question = await _interpret(state) if settings.interpret or is_question_withheld else ""
    if is_question_withheld:
        state = state._replace(case=case.model_copy(update={"clinician_question": question}))
    context = await _medical_context(state) if settings.context else ""
    votes = await collect_votes(state, context)
    pooled = pool_votes(votes.judgements, votes.experts)
    selection = select_evidence(case.sentence_ids, pooled, settings)
    chosen = case.in_note_order(selection.essential)
    draft = await _write_answer(state, context, chosen)
    verification = await _verify(state, context, selection, draft)
    essential = case.in_note_order(apply_checks(selection, verification.values()))
    if essential != chosen:
        draft = await _write_answer(state, context, essential)
    answer = await format_answer(state, context, draft, essential)
    return NoteResult(
        answer=answer,
        essential=essential,
        judgements=votes.judgements | verification,
        context=context,
        experts=votes.experts,
        remarks=tuple(dict.fromkeys((*state.remarks, *selection.remarks))),
        result=ArchehrResult(question=question) if question else None,
    )


async def _interpret(state: CaseState[NotePanelSettings]) -> str:
    """The clinician's question behind the message, for subtask 1; the agent sees the message alone."""
    if not state.case.patient_narrative.strip():
        return ""
    task = QuestionInterpretationTask.from_case(state.case)
    try:
        output = await QuestionInterpretationAgent().run(task, state.run_context)
    except (CaseFailed, ServerUnavailable) as failure:
        state.add_remark("no clinician's question: the agent failed", failure)
        return ""
    return output.question


async def _medical_context(state: CaseState[NotePanelSettings]) -> str:
    try:
        return await medical_context(state)
    except ServerUnavailable as failure:
        state.add_remark("no medical context: the server is down", failure)
        return ""


async def _verify(
    state: CaseState[NotePanelSettings],
    context: str,
    selection: EvidenceSelection,
    draft: CitedAnswer,
) -> Verification:
    """A second judgement of borderline sentences; if it fails, they stay as they were chosen."""
    if not (state.settings.verify and selection.borderline):
        return {}
    task = VerificationTask(
        case=state.case,
        context=context,
        chosen=state.case.in_note_order(selection.essential),
        doubtful=state.case.in_note_order(selection.borderline),
        draft=draft,
        labels=state.settings.labels,
        word_limit=state.settings.word_limit,
    )
    backend = next(iter(state.run_context.voters("verification")))
    try:
        verdicts = await VerificationAgent().run(task, state.run_context)
    except (CaseFailed, ServerUnavailable) as failure:
        state.add_remark("narrow choices stay: the verification failed", failure)
        return {}
    return {voter_name(VERIFICATION, backend): verdicts.judgements()}


async def _write_answer(
    state: CaseState[NotePanelSettings], context: str, essential: tuple[str, ...]
) -> CitedAnswer:
    """The answer by the deciding backend; if its server is down, by a voter's or the embedded engine."""
    agent = EvidenceDecisionAgent()
    task = EvidenceDecisionTask(
        case=state.case, context=context, chosen=essential, word_limit=state.settings.word_limit
    )
    for backend in _answer_backends(state.run_context):
        try:
            output = await backend.run(agent, task, state.run_context)
            return output.as_answer()
        except ServerUnavailable as failure:
            state.add_remark(
                "another backend writes the answer: the server of this one is down", failure
            )
        except (Unusable, Truncated, ContextTooLong) as failure:
            if not state.settings.fallback:
                raise
            state.add_remark(
                "the answer is extracted from the note: the decision agent failed", failure
            )
            break
    output = await EngineBackend().run(agent, task, state.run_context)
    return output.as_answer()


def _answer_backends(run_context: RunContext) -> list[PromptingBackend]:
    """The backends that can write the answer, each once, in order of preference."""
    backends = [
        run_context.backend("decision"),
        *run_context.voters("answer_first").values(),
        *run_context.voters("general_expert").values(),
    ]
    return list({id(backend): backend for backend in backends}.values())


PANEL = Pipeline(
    name="panel",
    summary="votes of several judges and models, weighed; then the answer from what was chosen",
    backend="model",
    run=panel,
    prompts=PROMPTS,
    agents=AGENTS,
    multi_model_agents=("general_expert", "specialist", "answer_first"),
    settings_type=NotePanelSettings,
)
