"""Asks a model, once or several times, for the opinion of an agent that scoring needs.

FHIR-AgentBench asks whether the replies that no rule decides are right, ArchEHR-QA whether the cited sentences
carry the lines. All tasks are judged concurrently, and every vote has its own cache entry, so that a second
scoring calls no model. A vote that ended without a usable output counts against what is judged, with a warning.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from archqa.agents.agent import Agent, RunContext
from archqa.agents.model_backend import ModelBackend
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.core.value import FrozenModel
from archqa.errors import CaseFailed
from archqa.llm.model import Model, Reply, Request
from archqa.runs.backends import Backends, log_remark
from archqa.runs.destinations import Announce
from archqa.runs.event_loop import run_sync
from archqa.runs.model_server import model_endpoint
from archqa.settings import AgentSettings, Settings, load_settings
from archqa.tasks import pipelines
from archqa.tasks.pipeline import in_parallel
from archqa.tasks.scoring.judging import Opinion, Output


@dataclass(frozen=True)
class JudgePanel:
    """A judge: a model by name, asked `votes` times. `model` replaces the server, for tests;
    `announce` is called before the first request with the hosts that get what is judged.

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

    def judge(
        self, agent: Agent[Any, Output], tasks: Sequence[FrozenModel]
    ) -> tuple[list[tuple[Opinion[Output], ...]], Usage]:
        """The votes on each task, in order, and their cost. Raises `ModelError`, `BudgetExceeded`."""
        if not tasks:
            return [], Usage()
        return run_sync(_vote(self, agent, tasks))


class _JudgeBackends(Backends):
    """The backends of a run, for one agent that no pipeline has."""

    def __init__(self, panel: JudgePanel, agent: str) -> None:
        self._name = agent
        temperature = 0.0 if panel.votes == 1 else 1.0
        self._agent = AgentSettings(temperature=temperature)
        settings = panel.judge_settings.replace(agents={agent: self._agent})
        super().__init__(
            settings,
            pipelines.find("dmis"),
            panel.model,
            announce=panel.announce,
            on_remark=log_remark,
        )

    def vote_context(
        self, vote: int, record_step: Callable[[Step], None]
    ) -> RunContext:
        """The run context of the n-th vote."""
        endpoint = model_endpoint(self._settings, self._name)
        model = _RepeatedModel(self._model(endpoint.base_url), vote * self._agent.turns)
        backend = ModelBackend(
            model,
            endpoint.model,
            temperature=self._agent.temperature,
            max_tokens=self._agent.max_tokens,
            turns=self._agent.turns,
        )
        return RunContext({self._name: backend}, record_step)


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


async def _vote(
    panel: JudgePanel, agent: Agent[Any, Output], tasks: Sequence[FrozenModel]
) -> tuple[list[tuple[Opinion[Output], ...]], Usage]:
    backends = _JudgeBackends(panel, agent.name)
    steps: list[Step] = []
    contexts = [
        backends.vote_context(vote, steps.append) for vote in range(panel.votes)
    ]
    try:
        opinions = await in_parallel(
            *(_opinion(agent, task, context) for task in tasks for context in contexts)
        )
    finally:
        await backends.close()
    by_task = [
        tuple(opinions[start : start + panel.votes])
        for start in range(0, len(opinions), panel.votes)
    ]
    return by_task, sum_usage(step.usage for step in steps)


async def _opinion(
    agent: Agent[Any, Output], task: FrozenModel, context: RunContext
) -> Opinion[Output]:
    try:
        return Opinion(await agent.run(task, context))
    except CaseFailed as failure:
        return Opinion(None, f"{type(failure).__name__}: {failure}")
