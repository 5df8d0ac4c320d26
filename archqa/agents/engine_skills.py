"""What the embedded engine does where it stands in for a model on the panel or in the subtasks of 2026.

Each skill takes the engine and a task, and returns what the agent of that task returns. They run in threads.
"""

from collections.abc import Callable
from typing import Any

from archqa.agents.agent import Agent
from archqa.agents.alignment import AlignmentAgent, AlignmentTask, AnswerLinks, EvidenceLinks
from archqa.agents.answer_first import AnswerFirstAgent, AnswerFirstTask, DraftAnswers, Role
from archqa.agents.cited_lines import Lines
from archqa.agents.evidence_writing import EvidenceDecisionAgent, EvidenceDecisionTask
from archqa.agents.question_interpretation import (
    ClinicianQuestion,
    QuestionInterpretationAgent,
    QuestionInterpretationTask,
)
from archqa.agents.verification import (
    Check,
    VerificationAgent,
    VerificationChecks,
    VerificationTask,
)
from archqa.agents.voting import (
    GeneralVotingAgent,
    SentenceVote,
    SentenceVotes,
    SpecialistVotingAgent,
    VotingTask,
)
from archqa.core.value import FrozenModel
from archqa.engine import Engine
from archqa.engine.answer_linking import predict_links
from archqa.engine.question_interpretation import derive_clinician_question

_WAYS = ("f1", "precision", "recall")
"""The operating points that stand for the different answers of different colleagues."""


def vote(engine: Engine, task: VotingTask) -> SentenceVotes:
    """The engine's judgements as votes."""
    judged = engine.judge(task.case, specialty=task.specialty or None)
    return SentenceVotes(
        verdicts=tuple(
            SentenceVote(**each.model_dump(), percent=round(100 * (each.probability or 0.0)))
            for each in judged
        )
    )


def answer_first(engine: Engine, task: AnswerFirstTask) -> DraftAnswers:
    """One extractive answer for each operating point, over and over."""
    judged = engine.judge(task.case)
    sets = [engine.select(judged, _WAYS[at % len(_WAYS)]) for at in range(task.answers)]
    answers = tuple(
        Lines.of(engine.compose(task.case, each, word_limit=task.word_limit)) for each in sets
    )
    cited = {one for answer in answers for one in answer.as_answer().cited}
    sure = {each.sentence_id for each in judged if (each.probability or 0.0) >= 0.5}
    roles = [
        Role(sentence_id=one, role="decisive" if one in sure else "supporting")
        for one in sorted(cited)
    ]
    return DraftAnswers(answers=answers, roles=tuple(roles))


def verify(engine: Engine, task: VerificationTask) -> VerificationChecks:
    """Keeps what the engine itself would take where recall counts most."""
    judged = engine.judge(task.case)
    kept = engine.select(judged, "recall")
    reasons = {each.sentence_id: each.rationale for each in judged}
    return VerificationChecks(
        checks=tuple(
            Check(rationale=reasons[one], keep=one in kept, sentence_id=one)
            for one in task.doubtful
        )
    )


def write(engine: Engine, task: EvidenceDecisionTask) -> Lines:
    """The chosen sentences, shortened."""
    return Lines.of(engine.compose(task.case, frozenset(task.chosen), word_limit=task.word_limit))


def ask(_: Engine, task: QuestionInterpretationTask) -> ClinicianQuestion:
    """The message's own questions in the third person."""
    return ClinicianQuestion(
        question=derive_clinician_question(task.case.patient_narrative, task.word_limit)
    )


def align(_: Engine, task: AlignmentTask) -> EvidenceLinks:
    """The links of the fitted linker."""
    pairs = predict_links(task.case)
    rows = {answer: {one for each, one in pairs if each == answer} for answer in task.answer_ids}
    return EvidenceLinks(
        links=tuple(
            AnswerLinks(
                rationale="by the linker",
                answer_id=answer,
                evidence_id=task.case.in_note_order(ids),
            )
            for answer, ids in rows.items()
        )
    )


ENGINE_IMPLEMENTATIONS: dict[type[Agent[Any, Any]], Callable[[Engine, Any], FrozenModel]] = {
    GeneralVotingAgent: vote,
    SpecialistVotingAgent: vote,
    AnswerFirstAgent: answer_first,
    VerificationAgent: verify,
    EvidenceDecisionAgent: write,
    QuestionInterpretationAgent: ask,
    AlignmentAgent: align,
}
