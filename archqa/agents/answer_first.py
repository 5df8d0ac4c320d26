"""Answers first, labels after: a few cited answers, each by itself, and then what each cited sentence is to them.

A sentence's vote is how many of the answers cite it. Source of the idea: the task's dataset paper (arXiv 2506.04156),
where answer-first prompting was the best of three, and UIC at ArchEHR-QA 2026 (cited by one of three: essential).
"""

from collections import Counter
from typing import Literal

import numpy as np

from archqa.agents.agent import Agent, CaseTask, Rejected, check_ids, join_ids
from archqa.agents.cited_lines import Lines, check_lines, restrict_citations
from archqa.agents.exemplars import Exemplar
from archqa.core.judgement import Judgement, Relevance
from archqa.core.value import FrozenModel
from archqa.engine.logistic_regression import expit, logit
from archqa.llm.structured import SentenceId

_ROLE_SHIFT = {"decisive": 0.7, "supporting": -0.7}
"""Log-odds by which a sentence's role moves its vote; set by hand, the combiner weighs the whole vote anyway."""


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
        """A vote on each sentence: (citing answers + ½) of (answers + 1), moved by its role."""
        counts = Counter(each for answer in self.answers for each in answer.as_answer().cited)
        roles = {each.sentence_id: each.role for each in self.roles}
        return tuple(
            _vote(each, counts[each], len(self.answers), roles.get(each, "")) for each in ids
        )


class AnswerFirstAgent(Agent[AnswerFirstTask, DraftAnswers]):
    """Writes several short cited answers, then names each cited sentence's role."""

    name = "answer_first"
    prompt = "answer_first/v1"
    task_type = AnswerFirstTask
    output_type = DraftAnswers

    def check(self, task: AnswerFirstTask, output: DraftAnswers) -> None:
        """As many answers as asked for, each a cited answer; a role for each sentence that is cited, and no other."""
        if len(output.answers) != task.answers:
            raise Rejected(
                f"You give {len(output.answers)} answers; write {task.answers}, each complete in itself."
            )
        for answer in output.answers:
            check_lines(task.case, answer.as_answer())
        roles = {each.sentence_id for each in output.roles}
        check_ids(roles, task.case, "You give roles to")
        missing = sorted(output.cited_ids - roles)
        if missing:
            raise Rejected(
                f"You cite {join_ids(missing)} but give no role. Name the role of every cited sentence."
            )

    def salvage(self, task: AnswerFirstTask, output: DraftAnswers) -> DraftAnswers | None:
        """Keep the answers that cite sentences of the note; roles may be missing."""
        known = frozenset(task.case.sentence_ids)
        kept = [restrict_citations(each.as_answer(), known) for each in output.answers]
        roles = tuple(each for each in output.roles if each.sentence_id in known)
        answers = tuple(Lines.from_answer(each) for each in kept if each is not None)
        return DraftAnswers(answers=answers, roles=roles) if answers else None

    def call_label(self, task: AnswerFirstTask) -> str:
        """Which asking it is."""
        return f"again {task.repetition}" if task.repetition else ""


def _vote(sentence_id: str, count: int, of: int, role: str) -> Judgement:
    share = (count + 0.5) / (of + 1)
    shift = _ROLE_SHIFT.get(role, 0.0) if count else 0.0
    return Judgement(
        sentence_id=sentence_id,
        label=Relevance.ESSENTIAL if count else Relevance.NOT_RELEVANT,
        rationale=f"cited by {count} of {of} answers{f', {role}' if role and count else ''}",
        probability=float(expit(logit(np.array(share)) + shift)),
    )
