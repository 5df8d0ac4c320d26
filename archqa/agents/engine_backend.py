"""Runs agents with the embedded evidence engine: no model server and no network."""

from typing import TypeVar, cast

from archqa.agents.agent import Agent, RunContext, SingleReplyBackend
from archqa.agents.engine_skills import ENGINE_SKILLS, EngineSession
from archqa.core.step import Step
from archqa.core.value import FrozenModel
from archqa.engine import Engine
from archqa.errors import Unusable
from archqa.llm.structured import Rejected

Task = TypeVar("Task", bound=FrozenModel)
Output = TypeVar("Output", bound=FrozenModel)


class EngineBackend(SingleReplyBackend):
    """Runs the agents of one case; the note is assessed once for each specialty."""

    kind = "embedded"

    def __init__(self, engine: Engine | None = None, operating_point: str = "f1") -> None:
        self._engine = engine or Engine.load()
        self._session = EngineSession(self._engine, operating_point)

    async def run(self, agent: Agent[Task, Output], task: Task, context: RunContext) -> Output:
        """Run one task; the output passes the same check as a model's. Raises `Unusable`."""
        skill = ENGINE_SKILLS.get(type(agent))
        if skill is None:
            raise Unusable(f"The embedded engine cannot run the agent {agent.name}.")
        output = cast("Output", await skill(self._session, task))
        rejected = ""
        try:
            agent.check(task, output)
        except Rejected as rejection:
            rejected = str(rejection)
            salvaged = agent.salvage(task, output)
            if salvaged is None:
                raise Unusable(
                    f"{agent.name}: the embedded engine's output fails its check."
                ) from None
            output = salvaged
        context.record_step(self._step(agent, task, output, rejected))
        return output

    def _step(self, agent: Agent[Task, Output], task: Task, output: Output, rejected: str) -> Step:
        return Step(
            agent=agent.name,
            about=agent.call_label(task),
            backend=self.kind,
            model=f"embedded:{self._engine.fingerprint[:12]}",
            parsed=output.model_dump(mode="json"),
            rejected=rejected,
            mended=bool(rejected),
        )
