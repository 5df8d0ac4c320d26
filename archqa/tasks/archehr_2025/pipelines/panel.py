"""The panel: many votes on each sentence, one choice, a second look, and then the answer.

Evidence is chosen in a stage of its own and before anything is written for it: what has beaten the six stages since
(ArchEHR-QA 2025 and 2026). The answer is written from the chosen set.
"""

from archqa.agents.agent import Backend, RunContext
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
    drop_rejected,
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


async def panel(case: Case, desk: RunContext, settings: NotePanelSettings) -> NoteResult:
    """Answer one case. Raises `CaseFailed` or `ServerUnavailable` when no model of the panel could vote."""
    if not case.sentences:
        raise Unusable("The note has no sentences, so nothing can be cited.")
    work = CaseState(case, desk, settings, [])
    question = await _question(work) if settings.interpret else ""
    work = work._replace(case=_asked(case, question))
    context = await _context(work) if settings.context else ""
    voted = await collect_votes(work, context)
    chosen = select_evidence(
        case.sentence_ids, pool_votes(voted.judgements, voted.experts), settings
    )
    checked = await _checked(work, context, chosen)
    removed = {
        each.sentence_id
        for given in checked.values()
        for each in given
        if each.label != "essential"
    }
    essential = case.in_note_order(drop_rejected(chosen, removed))
    answer = await format_answer(work, context, await _written(work, context, essential), essential)
    return NoteResult(
        answer=answer,
        essential=essential,
        judgements=voted.judgements | checked,
        context=context,
        experts=voted.experts,
        remarks=tuple(dict.fromkeys((*work.remarks, *chosen.remarks))),
        result=ArchehrResult(question=question) if question else None,
    )


async def _question(work: CaseState[NotePanelSettings]) -> str:
    """What the message asks, for subtask 1; the message alone is shown for it."""
    if not work.case.patient_narrative.strip():
        return ""
    try:
        return (
            await QuestionInterpretationAgent().run(
                QuestionInterpretationTask.from_case(work.case), work.desk
            )
        ).question
    except (CaseFailed, ServerUnavailable) as failure:
        work.add_remark("no clinician's question: the agent failed", failure)
        return ""


def _asked(case: Case, question: str) -> Case:
    """The case with a clinician's question: its own, or where a release withholds it, ours."""
    return (
        case
        if case.clinician_question.strip()
        else case.model_copy(update={"clinician_question": question})
    )


async def _context(work: CaseState[NotePanelSettings]) -> str:
    try:
        return await medical_context(work)
    except ServerUnavailable as failure:
        work.add_remark("no medical context: the server is down", failure)
        return ""


async def _checked(
    work: CaseState[NotePanelSettings], context: str, chosen: EvidenceSelection
) -> dict[str, tuple[Judgement, ...]]:
    """The second look at narrow choices; without it, all of them stay."""
    if not (work.settings.verify and chosen.doubtful and len(chosen.essential) > 1):
        return {}
    ids = (work.case.in_note_order(each) for each in (chosen.essential, chosen.doubtful))
    task = VerificationTask(case=work.case, context=context, chosen=next(ids), doubtful=next(ids))
    mind = next(iter(work.desk.voters("verification")))
    try:
        return {
            voter_name(VERIFICATION, mind): (
                await VerificationAgent().run(task, work.desk)
            ).judgements()
        }
    except (CaseFailed, ServerUnavailable) as failure:
        work.add_remark("narrow choices stay: the verification failed", failure)
        return {}


async def _written(
    work: CaseState[NotePanelSettings], context: str, essential: tuple[str, ...]
) -> CitedAnswer:
    """The answer by the deciding mind, or if its server is down by one that could vote, or by the embedded engine."""
    agent = EvidenceDecisionAgent()
    task = EvidenceDecisionTask(
        case=work.case, context=context, chosen=essential, word_limit=work.settings.word_limit
    )
    for mind in _writers(work.desk):
        try:
            return (await mind.run(agent, task, work.desk)).as_answer()
        except ServerUnavailable as failure:
            work.add_remark(
                "another mind writes the answer: the server of this one is down", failure
            )
        except (Unusable, Truncated, ContextTooLong) as failure:
            if not work.settings.fallback:
                raise
            work.add_remark(
                "the answer is extracted from the note: the decision agent failed", failure
            )
            break
    return (await EngineBackend().run(agent, task, work.desk)).as_answer()


def _writers(desk: RunContext) -> list[Backend]:
    able = [
        desk.backend("decision"),
        *desk.voters("answer_first").values(),
        *desk.voters("general_expert").values(),
    ]
    return list({id(mind): mind for mind in able}.values())


PANEL = Pipeline(
    name="panel",
    summary="votes of several judges and models, weighed; then the answer from what was chosen",
    mind="model",
    run=panel,
    prompts=PROMPTS,
    agents=AGENTS,
    settings_type=NotePanelSettings,
    multi_model_agents=("general_expert", "specialist", "answer_first"),
)
