"""The panel: many votes on each sentence, one choice, a second look, and then the answer.

Evidence is chosen in a stage of its own and before anything is written for it: what has beaten the six stages since
(ArchEHR-QA 2025 and 2026). The answer is written from the chosen set.
"""

from archqa.agents.answer import Compress, Summary
from archqa.agents.answer_first import AnswerFirst
from archqa.agents.base import Desk, Mind
from archqa.agents.context import Context
from archqa.agents.embedded_mind import EmbeddedMind
from archqa.agents.evidence_writing import DecisionFromEvidence, EvidenceTask
from archqa.agents.question_interpretation import QuestionInterpretation, QuestionTask
from archqa.agents.recruiting import Recruiting
from archqa.agents.verification import Verification, VerificationTask
from archqa.agents.voting import GeneralVote, SpecialistVote
from archqa.core.answer import CitedAnswer
from archqa.core.case import Case
from archqa.core.judgement import Judgement
from archqa.errors import CaseFailed, ContextTooLong, ServerUnavailable, Truncated, Unusable
from archqa.pipelines.base import ANSWERED, Outcome, Pipeline, PipelineSettings
from archqa.pipelines.deciding import VERIFICATION, Chosen, decide, signed, votes_of, without
from archqa.pipelines.panel_votes import gather
from archqa.pipelines.work import Work, hand_in, medical_context

_AGENTS = (
    Context,
    GeneralVote,
    Recruiting,
    SpecialistVote,
    AnswerFirst,
    Verification,
    DecisionFromEvidence,
    Compress,
    Summary,
    QuestionInterpretation,
)
AGENTS = tuple(dict.fromkeys(agent.name for agent in _AGENTS))
PROMPTS = tuple(agent.prompt for agent in _AGENTS)
"""The prompts of the panel."""


async def panel(case: Case, desk: Desk, settings: PipelineSettings) -> Outcome:
    """Answer one case. Raises `CaseFailed` or `ServerUnavailable` when no model of the panel could vote."""
    if not case.sentences:
        raise Unusable("The note has no sentences, so nothing can be cited.")
    work = Work(case, desk, settings, [])
    question = await _question(work) if settings.interpret else ""
    work = work._replace(case=_asked(case, question))
    context = await _context(work) if settings.context else ""
    voted = await gather(work, context)
    chosen = decide(case.sentence_ids, votes_of(voted.judgements, voted.experts), settings)
    checked = await _checked(work, context, chosen)
    removed = {each.sentence_id for given in checked.values() for each in given if each.label != "essential"}
    essential = case.in_note_order(without(chosen, removed))
    answer = await hand_in(work, context, await _written(work, context, essential), essential)
    return Outcome(
        answer=answer,
        essential=essential,
        judgements=voted.judgements | checked,
        context=context,
        experts=voted.experts,
        remarks=tuple(dict.fromkeys((*work.remarks, *chosen.remarks))),
        result={"question": question} if question else {},
    )


async def _question(work: Work) -> str:
    """What the message asks, for subtask 1; the message alone is shown for it."""
    if not work.case.patient_narrative.strip():
        return ""
    try:
        return (await QuestionInterpretation().run(QuestionTask.of(work.case), work.desk)).question
    except (CaseFailed, ServerUnavailable) as failure:
        work.remark("no clinician's question: the agent failed", failure)
        return ""


def _asked(case: Case, question: str) -> Case:
    """The case with a clinician's question: its own, or where a release withholds it, ours."""
    return case if case.clinician_question.strip() else case.model_copy(update={"clinician_question": question})


async def _context(work: Work) -> str:
    try:
        return await medical_context(work)
    except ServerUnavailable as failure:
        work.remark("no medical context: the server is down", failure)
        return ""


async def _checked(work: Work, context: str, chosen: Chosen) -> dict[str, tuple[Judgement, ...]]:
    """The second look at narrow choices; without it, all of them stay."""
    if not (work.settings.verify and chosen.doubtful and len(chosen.essential) > 1):
        return {}
    ids = (work.case.in_note_order(each) for each in (chosen.essential, chosen.doubtful))
    task = VerificationTask(case=work.case, context=context, chosen=next(ids), doubtful=next(ids))
    mind = next(iter(work.desk.voters("verification")))
    try:
        return {signed(VERIFICATION, mind): (await Verification().run(task, work.desk)).judgements()}
    except (CaseFailed, ServerUnavailable) as failure:
        work.remark("narrow choices stay: the verification failed", failure)
        return {}


async def _written(work: Work, context: str, essential: tuple[str, ...]) -> CitedAnswer:
    """The answer by the deciding mind, or if its server is down by one that could vote, or by the embedded engine."""
    agent = DecisionFromEvidence()
    task = EvidenceTask(case=work.case, context=context, chosen=essential, word_limit=work.settings.word_limit)
    for mind in _writers(work.desk):
        try:
            return (await mind.perform(agent, task, work.desk)).as_answer()
        except ServerUnavailable as failure:
            work.remark("another mind writes the answer: the server of this one is down", failure)
        except (Unusable, Truncated, ContextTooLong) as failure:
            if not work.settings.fallback:
                raise
            work.remark("the answer is extracted from the note: the decision agent failed", failure)
            break
    return (await EmbeddedMind().perform(agent, task, work.desk)).as_answer()


def _writers(desk: Desk) -> list[Mind]:
    able = [desk.mind("decision"), *desk.voters("answer_first").values(), *desk.voters("general_expert").values()]
    return list({id(mind): mind for mind in able}.values())


PANEL = Pipeline(
    name="panel",
    summary="votes of several judges and models, weighed; then the answer from what was chosen",
    mind="model",
    run=panel,
    prompts=PROMPTS,
    agents=AGENTS,
    tasks=ANSWERED,
    several=("general_expert", "specialist", "answer_first"),
)
