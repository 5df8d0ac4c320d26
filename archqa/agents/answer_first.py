"""Writes several cited answers first, then names the role of each cited sentence.

A sentence's vote is the share of the answers that cite it. Source of the idea: the task's dataset
paper (arXiv 2506.04156), where answer-first prompting was the best of three, and UIC at ArchEHR-QA
2026 (cited by one of three: essential).
"""

from collections import Counter
from typing import Literal

from archqa.agents.agent import Agent, CaseTask, Rejected, check_ids, join_ids
from archqa.agents.cited_lines import Lines, check_lines, restrict_citations
from archqa.agents.exemplars import Exemplar
from archqa.core.judgement import Judgement, Relevance
from archqa.core.probability import from_log_odds, log_odds
from archqa.core.value import FrozenModel
from archqa.llm.structured import SentenceId

_ROLE_LOG_ODDS = {"decisive": 0.7, "supporting": -0.7}
"""Log-odds that a sentence's role adds to its vote; chosen by hand, as the combiner weighs the
whole vote anyway.
"""


class AnswerFirstTask(CaseTask):
    """A case that is answered `answers` times over."""

    answers: int = 3
    word_limit: int = 75
    exemplars: tuple[Exemplar, ...] = ()
    repetition: int = 0


class Role(FrozenModel):
    """What a cited sentence is to the answers."""

    sentence_id: SentenceId
    role: Literal["decisive", "supporting"]


class DraftAnswers(FrozenModel):
    """The answers, and the role of every sentence that one of them cites."""

    answers: tuple[Lines, ...]
    roles: tuple[Role, ...]

    @property
    def cited_ids(self) -> frozenset[str]:
        """The ids that any of the answers cites."""
        return frozenset().union(*(answer.as_answer().cited for answer in self.answers))

    def judgements(self, ids: tuple[str, ...]) -> tuple[Judgement, ...]:
        """A vote on each sentence: (citing answers + ½) / (answers + 1), adjusted by its role."""
        counts = Counter[str]()
        for answer in self.answers:
            counts.update(answer.as_answer().cited)
        roles = {role.sentence_id: role.role for role in self.roles}
        total = len(self.answers)
        votes = []
        for sentence_id in ids:
            role = roles.get(sentence_id, "")
            votes.append(_vote(sentence_id, counts[sentence_id], total, role))
        return tuple(votes)


class AnswerFirstAgent(Agent[AnswerFirstTask, DraftAnswers]):
    """Writes several short cited answers, then names each cited sentence's role."""

    name = "answer_first"
    prompt = "answer_first/v3"
    task_type = AnswerFirstTask
    output_type = DraftAnswers

    def check(self, task: AnswerFirstTask, output: DraftAnswers) -> None:
        """There are as many answers as requested, all cited; every cited sentence has a role, and
        no other.
        """
        if len(output.answers) != task.answers:
            raise Rejected(
                f"You give {len(output.answers)} answers; write {task.answers}, each complete in itself."
            )
        for answer in output.answers:
            check_lines(task.case, answer.as_answer())
        roles = {role.sentence_id for role in output.roles}
        check_ids(roles, task.case, "You give roles to")
        missing = sorted(output.cited_ids - roles)
        if missing:
            raise Rejected(
                f"You cite {join_ids(missing)} but give no role. Name the role of every cited sentence."
            )

    def salvage(self, task: AnswerFirstTask, output: DraftAnswers) -> DraftAnswers | None:
        """The answers restricted to citations of the note; roles may be missing."""
        note_ids = frozenset(task.case.sentence_ids)
        answers: list[Lines] = []
        for lines in output.answers:
            answer = restrict_citations(lines.as_answer(), note_ids)
            if answer is not None:
                answers.append(Lines.from_answer(answer))
        if not answers:
            return None
        roles = [role for role in output.roles if role.sentence_id in note_ids]
        return DraftAnswers(answers=tuple(answers), roles=tuple(roles))

    def call_label(self, task: AnswerFirstTask) -> str:
        """The number of the repetition."""
        return f"again {task.repetition}" if task.repetition else ""


def _vote(sentence_id: str, count: int, total: int, role: str) -> Judgement:
    """The vote on a sentence that `count` of `total` answers cite."""
    share = (count + 0.5) / (total + 1)
    if count == 0:
        role = ""
    shift = _ROLE_LOG_ODDS.get(role, 0.0)
    suffix = f", {role}" if role else ""
    return Judgement(
        sentence_id=sentence_id,
        label=Relevance.ESSENTIAL if count else Relevance.NOT_RELEVANT,
        rationale=f"cited by {count} of {total} answers{suffix}",
        probability=from_log_odds(log_odds(share) + shift),
    )
