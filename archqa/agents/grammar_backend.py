"""The mind that reads questions about a record without a model: the parser performs the planner."""

import asyncio
from typing import TypeVar, cast

from archqa.agents.agent import Agent, RunContext
from archqa.agents.planner import Plan, PlannerAgent, PlannerTask
from archqa.core.step import Step
from archqa.core.value import FrozenModel
from archqa.errors import Refused, Unusable
from archqa.fhir import Record
from archqa.query import Query

Task = TypeVar("Task", bound=FrozenModel)
Output = TypeVar("Output", bound=FrozenModel)

_MODEL = "embedded:query-parser"


class GrammarBackend:
    """Performs the planner on one record. Equal questions get equal queries; nothing is asked of anybody."""

    kind = "embedded"

    def __init__(self, record: Record) -> None:
        self._record = record

    async def perform(self, agent: Agent[Task, Output], task: Task, desk: RunContext) -> Output:
        """The query of a question. Raises `Refused` with the part not understood, `Unusable` for other agents."""
        if not isinstance(agent, PlannerAgent) or not isinstance(task, PlannerTask):
            raise Unusable(f"The parser has no skill for the agent {agent.name}.")
        try:
            query = await asyncio.to_thread(self._read, task)
        except Refused as why:
            desk.record(_step(agent.name, None, str(why)))
            raise
        plan = Plan(query=query)
        desk.record(_step(agent.name, plan, ""))
        return cast("Output", plan)

    def _read(self, task: PlannerTask) -> Query:
        from archqa.query.grammar import (
            parse,
        )  # Slow to import, and not every command asks a record.

        return parse(task.question, task.assumption, self._record, task.patient_fhir_id)


def _step(agent: str, plan: Plan | None, rejected: str) -> Step:
    parsed = plan.model_dump(mode="json", exclude_defaults=True) if plan else None
    return Step(
        agent=agent, mind=GrammarBackend.kind, model=_MODEL, parsed=parsed, rejected=rejected
    )
