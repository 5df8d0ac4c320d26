"""Votes of a judge on the replies of FHIR-AgentBench that no rule decides."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from archqa.tasks.fhir_agentbench.judge import JudgeAgent, JudgeTask, Ruling
from archqa.tasks.judging import Judge, Opinion
from scoring.fhir_answers import is_correct, parse_gold_answer
from scoring.tasks import fhir_agentbench
from scoring.tasks.fhir_agentbench import Question

Rows = Sequence[Mapping[str, Any]]


class Ballot(NamedTuple):
    """One vote on one reply.

    `correct` is None where the model gave no usable ruling, `why` says why.
    """

    correct: bool | None
    why: str


Ballots = tuple[Ballot, ...]


class _Reply(NamedTuple):
    question: str
    reference: str
    reply: str


class JudgeVotes:
    """A judge's votes on all replies that no rule decides, and those on which the votes differ.

    An instance is the `judge` argument of `scoring.tasks.fhir_agentbench.score`, which calls it
    once for each vote.
    """

    def __init__(self, judge: Judge, rows: Rows, questions: Sequence[Question]) -> None:
        replies = _undecided_replies(rows, questions)
        tasks = [JudgeTask(**reply._asdict()) for reply in replies]
        opinions, self.usage = judge.judge(JudgeAgent(), tasks)
        ballots = [tuple(map(_ballot, votes)) for votes in opinions]
        self._ballots = dict(zip(replies, ballots, strict=True))
        self._votes: dict[_Reply, Iterator[bool]] = {}
        for reply, reply_ballots in self._ballots.items():
            self._votes[reply] = cycle([bool(ballot.correct) for ballot in reply_ballots])
        self.disagreements = list(self._find_disagreements(rows, questions))

    def __call__(self, question: str, reference: str, reply: str) -> bool:
        """The next vote on this reply."""
        return next(self._votes[_Reply(question, reference, reply)])

    @property
    def warnings(self) -> list[str]:
        """A warning about votes without a usable ruling."""
        unusable = 0
        for ballots in self._ballots.values():
            unusable += sum(ballot.correct is None for ballot in ballots)
        if not unusable:
            return []
        return [f"{unusable} votes of the judge were unusable and count against the reply."]

    def _find_disagreements(
        self, rows: Rows, questions: Sequence[Question]
    ) -> Iterator[dict[str, Any]]:
        """Replies with split or unusable votes, or whose majority differs from the strict comparison."""
        by_id = {question.question_id: question for question in questions}
        for row in rows:
            question = by_id.get(str(row["question_id"]))
            if question is None or row.get("error"):
                continue
            reply = _Reply(question.question, question.reference, str(row.get("agent_answer")))
            ballots = self._ballots.get(reply)
            if ballots is None:
                continue
            disagreement = _disagreement(ballots, _compare_strictly(question, row["agent_answer"]))
            if disagreement:
                yield {
                    "question_id": question.question_id,
                    "reference": reply.reference,
                    "reply": reply.reply,
                    **disagreement,
                }


def _ballot(opinion: Opinion[Ruling]) -> Ballot:
    if opinion.output is None:
        return Ballot(None, opinion.failure)
    return Ballot(opinion.output.correct, opinion.output.rationale)


def _undecided_replies(rows: Rows, questions: Sequence[Question]) -> list[_Reply]:
    """The distinct replies for which scoring would ask a judge."""
    replies: dict[_Reply, None] = {}

    def collect(question: str, reference: str, reply: str) -> bool:
        replies[_Reply(question, reference, reply)] = None
        return False

    fhir_agentbench.score(
        rows, questions, judge=collect, metrics=["answer_correctness"], bootstrap=0
    )
    return list(replies)


def _disagreement(ballots: Ballots, strict: bool | None) -> dict[str, Any]:
    """The votes, if they differ from each other or from the strict comparison; empty otherwise."""
    votes = [ballot.correct for ballot in ballots]
    votes_for = sum(map(bool, votes))
    majority = votes_for * 2 > len(votes)
    is_unanimous = len(set(votes)) == 1 and None not in votes
    if is_unanimous and strict in {None, majority}:
        return {}
    return {
        "votes": votes,
        "counted": majority,
        "strict_comparer": strict,
        "why": [ballot.why for ballot in ballots],
    }


def _compare_strictly(question: Question, reply: Any) -> bool | None:
    gold = parse_gold_answer(question.true_answer)
    return is_correct(question.question, gold, reply, no_answer=not question.resources, strict=True)
