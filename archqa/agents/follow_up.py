"""Rewrites a follow-up question to one that stands by itself, from the last questions and answers."""

from typing import Literal

from archqa.agents.agent import Agent, Rejected, join_ids
from archqa.agents.grounding import ungrounded_drugs, ungrounded_numbers
from archqa.core.value import FrozenModel

MOST_WORDS = 60
"""A longer text is no question but an answer."""


class AskedTurn(FrozenModel):
    """A question that stands by itself, how it ended, and the lines of its answer."""

    question: str
    status: str
    lines: tuple[str, ...] = ()


class FollowUpTask(FrozenModel):
    """A new question and the turns before it, oldest first."""

    question: str
    turns: tuple[AskedTurn, ...]

    @property
    def sources(self) -> str:
        """All text that the rewritten question may take numbers and drugs from."""
        texts = [self.question]
        for turn in self.turns:
            texts += [turn.question, *turn.lines]
        return "\n".join(texts)


class RewrittenQuestion(FrozenModel):
    """The standalone question; the reason comes first, so that it is thought of first."""

    rationale: str
    kind: Literal["rewritten", "new_subject", "unclear"]
    question: str


class FollowUpAgent(Agent[FollowUpTask, RewrittenQuestion]):
    """Says what a follow-up question refers to, or that it is unclear."""

    name = "follow_up"
    prompt = "follow_up/v1"
    task_type = FollowUpTask
    output_type = RewrittenQuestion

    def check(self, task: FollowUpTask, output: RewrittenQuestion) -> None:
        """A rewritten question has no number and no drug that was neither asked nor answered."""
        if output.kind != "rewritten":
            if output.question.strip():
                raise Rejected(f'With the kind "{output.kind}" leave "question" empty.')
            return
        words = output.question.split()
        if not words:
            raise Rejected('"rewritten" needs the standalone question in "question".')
        if len(words) > MOST_WORDS:
            raise Rejected(
                f'"question" is one short question of at most {MOST_WORDS} words.'
            )
        numbers = ungrounded_numbers(output.question, task.sources)
        if numbers:
            raise Rejected(
                f"{join_ids(numbers)} stands neither in the conversation nor in the new question. "
                "Write numbers and dates as they stand there."
            )
        drugs = ungrounded_drugs(output.question, task.sources)
        if drugs:
            raise Rejected(
                f"{join_ids(drugs)} stands neither in the conversation nor in the new question. "
                "Name no other drug."
            )
