"""Asks a model, once or several times, whether the replies that no rule decides are right (FHIR-AgentBench).

All replies are judged concurrently, and every vote has its own cache entry, so that a second scoring calls
no model. A vote that ended without a usable ruling counts against the reply, with a warning.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from archqa.agents.agent import RunContext
from archqa.agents.model_backend import ModelBackend
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.errors import CaseFailed
from archqa.llm.model import Model, Reply, Request
from archqa.runs.backends import Backends, log_remark
from archqa.runs.destinations import Announce
from archqa.runs.event_loop import run_sync
from archqa.runs.models import model_endpoints
from archqa.settings import AgentSettings, Settings, load_settings
from archqa.tasks import pipelines
from archqa.tasks.fhir_agentbench.judge import JudgeAgent, JudgeTask
from archqa.tasks.fhir_agentbench.scoring.votes import Ballot, Ballots
from archqa.tasks.pipeline import in_parallel


@dataclass(frozen=True)
class JudgePanel:
    """A judge: a model by name, asked `votes` times. `model` replaces the server, for tests;
    `announce` is called before the first request with the hosts that get the replies.

    A single vote is taken at temperature 0; several at 1, since they should be independent readings.
    """

    name: str
    votes: int = 1
    settings: Settings | None = None
    model: Model | None = None
    announce: Announce | None = None

    @property
    def judge_settings(self) -> Settings:
        """The settings with the judge as the model; by default those in force."""
        settings = self.settings or load_settings(typed={"model": self.name})
        return settings.replace(model=self.name)

    def judge(self, tasks: Sequence[JudgeTask]) -> tuple[list[Ballots], Usage]:
        """The votes on each task, in order, and their cost. Raises `ModelError`, `BudgetExceeded`."""
        if not tasks:
            return [], Usage()
        return run_sync(_vote(self, tasks))


class _JudgeBackends(Backends):
    """The backends of a run, for one agent that no pipeline has."""

    def __init__(self, panel: JudgePanel) -> None:
        temperature = 0.0 if panel.votes == 1 else 1.0
        self._agent = AgentSettings(temperature=temperature)
        settings = panel.judge_settings.replace(agents={"judge": self._agent})
        super().__init__(
            settings,
            pipelines.find("dmis"),
            panel.model,
            announce=panel.announce,
            on_remark=log_remark,
        )

    def vote_context(self, vote: int, record_step: Callable[[Step], None]) -> RunContext:
        """The run context of the n-th vote."""
        endpoint = model_endpoints(self._settings, "judge")[0]
        model = _RepeatedModel(self._model(endpoint.base_url), vote * self._agent.turns)
        backend = ModelBackend(
            model,
            endpoint.model,
            temperature=self._agent.temperature,
            max_tokens=self._agent.max_tokens,
            turns=self._agent.turns,
        )
        return RunContext({"judge": backend}, record_step)


class _RepeatedModel:
    """The same model with repetition numbers after those of the earlier votes, for the cache."""

    def __init__(self, model: Model, first_repetition: int) -> None:
        self._model = model
        self._first_repetition = first_repetition

    async def ask(self, request: Request) -> Reply:
        """Answer one request."""
        repetition = request.repetition + self._first_repetition
        renumbered = request.model_copy(update={"repetition": repetition})
        return await self._model.ask(renumbered)


async def _vote(panel: JudgePanel, tasks: Sequence[JudgeTask]) -> tuple[list[Ballots], Usage]:
    backends = _JudgeBackends(panel)
    steps: list[Step] = []
    contexts = [backends.vote_context(vote, steps.append) for vote in range(panel.votes)]
    try:
        ballots = await in_parallel(*(_ballots(task, contexts) for task in tasks))
    finally:
        await backends.close()
    return list(ballots), sum_usage(step.usage for step in steps)


async def _ballots(task: JudgeTask, contexts: Sequence[RunContext]) -> Ballots:
    """The votes on one task, one from each run context."""
    return tuple(await in_parallel(*(_ballot(task, context) for context in contexts)))


async def _ballot(task: JudgeTask, context: RunContext) -> Ballot:
    try:
        ruling = await JudgeAgent().run(task, context)
    except CaseFailed as failure:
        return Ballot(None, f"{type(failure).__name__}: {failure}")
    return Ballot(ruling.correct, ruling.rationale)
