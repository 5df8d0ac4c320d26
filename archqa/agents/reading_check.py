"""Checks how the grammar read a question about a record: confirms it, or says what to do instead."""

from typing import Literal

from pydantic import Field

from archqa.agents.agent import Agent, Rejected, join_ids
from archqa.core.value import FrozenModel
from archqa.query.questions.everyday.declining import judgement_reasons


class ReadingTask(FrozenModel):
    """A question, the queries in words that it was read as, and the first lines of their result.

    `context` is what else is known, `now` the time of the question. `remarks` say which words
    were not taken into account. `kinds` are those of judgements.
    """

    question: str
    context: str = ""
    now: str
    reading: str
    status: str
    result: str = ""
    remarks: str = ""
    kinds: tuple[str, ...] = Field(default_factory=lambda: tuple(judgement_reasons()))


class ReadingVerdict(FrozenModel):
    """What becomes of the queries."""

    # First, so that it is thought of first.
    reason: str
    verdict: Literal["confirmed", "replace", "judgement", "not_expressible"]
    judgement: str = ""


class ReadingCheckAgent(Agent[ReadingTask, ReadingVerdict]):
    """Confirms the grammar's reading of a question, or rejects it; never answers."""

    name = "reading_check"
    prompt = "reading_check/v1"
    task_type = ReadingTask
    output_type = ReadingVerdict

    def check(self, task: ReadingTask, output: ReadingVerdict) -> None:
        """A judgement is of a kind that is declined; what no query expresses has a reason."""
        if output.verdict == "judgement" and output.judgement not in task.kinds:
            raise Rejected(f'"judgement" is one of {join_ids(task.kinds)}.')
        if output.verdict == "not_expressible" and not output.reason.strip():
            raise Rejected('"reason" says what no query can express.')
