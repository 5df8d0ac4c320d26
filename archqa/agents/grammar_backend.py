"""Runs the planner without a model: the grammar parses the question into a query."""

import asyncio
from typing import cast

from archqa.agents.agent import Agent, Output, RunContext, SingleReplyBackend, Task
from archqa.agents.planner import Plan, PlannerAgent, PlannerTask
from archqa.core.step import Step
from archqa.errors import Refused, Unusable
from archqa.fhir import Record
from archqa.query import Query

_MODEL = "embedded:query-parser"


class GrammarBackend(SingleReplyBackend):
    """Runs the planner on one record. Deterministic: the same question gives the same query."""

    kind = "embedded"

    def __init__(self, record: Record) -> None:
        self._record = record

    async def run(
        self, agent: Agent[Task, Output], task: Task, context: RunContext
    ) -> Output:
        """The query of a question.

        Raises `Refused` naming what was not understood, `Unusable` for other agents.
        """
        if not isinstance(agent, PlannerAgent) or not isinstance(task, PlannerTask):
            raise Unusable(f"The query parser cannot run the agent {agent.name}.")

        def parsed() -> Query:
            # Imported late: the grammar is slow to import, and only questions about a record need it.
            from archqa.query.questions.ehrsql import parse

            return parse(
                task.question, task.assumption, self._record, task.patient_fhir_id
            )

        try:
            query = await asyncio.to_thread(parsed)
        except Refused as refusal:
            context.record_step(_step(agent.name, None, refusal.full_text))
            raise
        plan = Plan(queries=(query,))
        context.record_step(_step(agent.name, plan, ""))
        return cast("Output", plan)


def _step(agent: str, plan: Plan | None, rejected: str) -> Step:
    parsed = None
    if plan is not None:
        parsed = plan.model_dump(mode="json", exclude_defaults=True)
    return Step(
        agent=agent,
        backend=GrammarBackend.kind,
        model=_MODEL,
        parsed=parsed,
        rejected=rejected,
    )
