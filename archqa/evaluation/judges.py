"""Asks a model, once or several times, whether the replies that no rule decides are right (FHIR-AgentBench).

All replies are asked about side by side, and every vote has its own place in the cache, so that a second scoring asks
nobody. A vote that ended without a usable ruling counts against the reply, aloud.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, NamedTuple

from archqa.agents.agent import RunContext
from archqa.agents.model_backend import ModelBackend
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.errors import CaseFailed
from archqa.llm.model import Model, Reply, Request
from archqa.runs.backends import Backends
from archqa.runs.event_loop import run_sync
from archqa.runs.models import model_endpoints
from archqa.settings import AgentSettings, Settings, load_settings
from archqa.tasks import pipelines
from archqa.tasks.fhir_agentbench.judge import JudgeAgent, JudgeTask
from archqa.tasks.pipeline import in_parallel
from scoring.fhir_answers import is_correct, parse_gold_answer
from scoring.tasks import fhir_agentbench
from scoring.tasks.fhir_agentbench import Question

Rows = Sequence[Mapping[str, Any]]


class Ballot(NamedTuple):
    """One vote on one reply; `correct` is None where the model gave no usable ruling, and `why` says why."""

    correct: bool | None
    why: str


Ballots = tuple[Ballot, ...]


@dataclass(frozen=True)
class JudgePanel:
    """Who judges: a model by name, asked `votes` times. `model` replaces the server, for tests.

    A single vote is taken at temperature 0; several at 1, since they should be independent readings.
    """

    name: str
    votes: int = 1
    settings: Settings = field(default_factory=load_settings)
    model: Model | None = None

    def judge(self, tasks: Sequence[JudgeTask]) -> tuple[list[Ballots], Usage]:
        """The votes on each task, in order, and what they cost. Raises `ModelError`, `BudgetExceeded`."""
        return run_sync(_vote(self, tasks)) if tasks else ([], Usage())


class JudgeVotes:
    """A panel's votes on all replies that no rule decides, and where it was not of one mind.

    An instance is the judge that `scoring.tasks.fhir_agentbench.score` asks, vote by vote.
    """

    def __init__(self, panel: JudgePanel, rows: Rows, questions: Sequence[Question]) -> None:
        asked = _undecided(rows, questions)
        tasks = [
            JudgeTask(question=question, reference=right, reply=reply)
            for question, right, reply in asked
        ]
        found, self.usage = panel.judge(tasks)
        self._ballots = dict(zip(asked, found, strict=True))
        self._votes = {
            each: cycle(bool(one.correct) for one in ballots)
            for each, ballots in self._ballots.items()
        }
        self.disagreements = list(
            self._disagreements(rows, {each.question_id: each for each in questions})
        )

    def __call__(self, question: str, reference: str, reply: str) -> bool:
        """The next vote on this reply."""
        return next(self._votes[question, reference, reply])

    @property
    def warnings(self) -> list[str]:
        """What a reader of the scores should know of the votes."""
        lost = sum(one.correct is None for ballots in self._ballots.values() for one in ballots)
        return (
            [f"{lost} votes of the judge were unusable and count against the reply."]
            if lost
            else []
        )

    def _disagreements(self, rows: Rows, key: Mapping[str, Question]) -> Iterator[dict[str, Any]]:
        """Replies on which votes are split or lost, or on which the majority and the strict comparer differ."""
        for row in rows:
            question, reply = key.get(str(row["question_id"])), str(row.get("agent_answer"))
            ballots = (
                self._ballots.get((question.question, question.reference, reply))
                if question
                else None
            )
            if question is None or ballots is None or row.get("error"):
                continue
            told = {
                "question_id": question.question_id,
                "reference": question.reference,
                "reply": reply,
            }
            split = _split(ballots, _strictly(question, row["agent_answer"]))
            if split:
                yield {**told, **split}


class _JudgesMinds(Backends):
    """The model room of a run, for one agent that no pipeline has."""

    def __init__(self, panel: JudgePanel) -> None:
        self._agent = AgentSettings(temperature=0.0 if panel.votes == 1 else 1.0)
        alone = {"model": panel.name, "agents": {"judge": self._agent}}
        super().__init__(
            panel.settings.model_copy(update=alone), pipelines.find("dmis"), panel.model
        )

    def seat(self, vote: int, record: Callable[[Step], None]) -> RunContext:
        """Where the n-th vote is taken."""
        judge = model_endpoints(self._settings, "judge")[0]
        model = _Again(self._model(judge.base_url), vote * self._agent.turns)
        mind = ModelBackend(
            model,
            judge.model,
            temperature=self._agent.temperature,
            max_tokens=self._agent.max_tokens,
            turns=self._agent.turns,
        )
        return RunContext({"judge": mind}, record)


class _Again:
    """The same model, asked anew: its repetitions begin after those of the votes before."""

    def __init__(self, inner: Model, before: int) -> None:
        self._inner = inner
        self._before = before

    async def ask(self, request: Request) -> Reply:
        """Answer one request."""
        return await self._inner.ask(
            request.model_copy(update={"repetition": request.repetition + self._before})
        )


def _undecided(rows: Rows, questions: Sequence[Question]) -> list[tuple[str, str, str]]:
    """(question, reference, reply) wherever the ruler would ask a judge, each once."""
    found: dict[tuple[str, str, str], None] = {}

    def note(question: str, reference: str, reply: str) -> bool:
        found[question, reference, reply] = None
        return False

    fhir_agentbench.score(rows, questions, judge=note, metrics=["answer_correctness"], bootstrap=0)
    return list(found)


def _split(ballots: Ballots, comparer: bool | None) -> dict[str, Any]:
    votes = [one.correct for one in ballots]
    counted = sum(map(bool, votes)) * 2 > len(votes)
    if len(set(votes)) == 1 and None not in votes and comparer in {None, counted}:
        return {}
    return {
        "votes": votes,
        "counted": counted,
        "strict_comparer": comparer,
        "why": [one.why for one in ballots],
    }


def _strictly(question: Question, reply: Any) -> bool | None:
    gold = parse_gold_answer(question.true_answer)
    return is_correct(question.question, gold, reply, no_answer=not question.resources, strict=True)


async def _vote(panel: JudgePanel, tasks: Sequence[JudgeTask]) -> tuple[list[Ballots], Usage]:
    minds = _JudgesMinds(panel)
    steps: list[Step] = []
    desks = [minds.seat(vote, steps.append) for vote in range(panel.votes)]
    try:
        votes = await in_parallel(*(_ballot(task, desk) for task in tasks for desk in desks))
    finally:
        await minds.close()
    grouped = [tuple(votes[at : at + panel.votes]) for at in range(0, len(votes), panel.votes)]
    return grouped, sum_usage(step.usage for step in steps)


async def _ballot(task: JudgeTask, desk: RunContext) -> Ballot:
    try:
        ruling = await JudgeAgent().run(task, desk)
    except CaseFailed as failure:
        return Ballot(None, f"{type(failure).__name__}: {failure}")
    return Ballot(ruling.correct, ruling.rationale)
