"""The turns of the planner: look-ups, queries that are carried out, and what it is told of them."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from archqa.agents.agent import RunContext
from archqa.agents.grammar_backend import GrammarBackend
from archqa.agents.planner import LookupResult, Plan, PlannerAgent, PlannerTask, QueryAttempt
from archqa.core.question import RecordQuestion
from archqa.errors import CaseFailed, Refused, Unusable
from archqa.fhir import FhirError
from archqa.query import (
    CannotExecute,
    Chart,
    Query,
    QueryResult,
    execute,
    format_agent_answer,
)
from archqa.query.called_concepts import with_concept_names
from archqa.query.contents import (
    RecordContents,
    contents_card,
    contents_of,
    explain_empty,
    look_up,
    look_up_question,
    may_be_asked_otherwise,
)
from archqa.query.conventions import CLINICAL, Conventions, at_stated_time, get_conventions
from archqa.query.execution.later_rows import cutoff
from archqa.query.execution.time_windows import resolve_now
from archqa.query.questions.ehrsql.text import parse_context
from archqa.tasks.fhir_agentbench.settings import TypedQuerySettings

CONVENTIONS = "mimic-ehrsql"
"""The conventions of FHIR-AgentBench's questions, unless the settings name others."""

_STAND_BY = "If the record holds nothing of the kind, give the same query again."


class Planning(NamedTuple):
    """One question in progress; `trace` collects what was carried out."""

    question: RecordQuestion
    context: RunContext
    settings: TypedQuerySettings
    chart: Chart
    trace: list[dict[str, Any]]

    @property
    def uses_model(self) -> bool:
        """Whether a model writes the query, so that feedback can change it."""
        return self.context.backend(PlannerAgent.name).kind != GrammarBackend.kind

    @property
    def conventions(self) -> str:
        """The name of the conventions of the question."""
        return self.settings.conventions or CONVENTIONS

    @property
    def cutoff(self) -> datetime | None:
        """The first moment of which rows are left out as later; None if all count."""
        conventions = self._executed_by
        now = parse_context(self.question.assumption).now
        return cutoff(resolve_now(now, conventions), conventions)

    @property
    def _executed_by(self) -> Conventions:
        """The conventions of queries: where the time was stated, those of a stated time."""
        if self.question.is_time_stated:
            return at_stated_time(self.conventions)
        return get_conventions(self.conventions)

    @property
    def contents(self) -> RecordContents:
        """What the record holds for the patient."""
        return contents_of(self.chart, self.conventions)

    def execute(self, query: Query) -> QueryResult:
        """Carry out a query. Raises `CannotExecute`, and as the record does.

        Where later rows are left out, the time that was stated counts, not the model's.
        """
        timed = query
        if self.cutoff is not None:
            now = parse_context(self.question.assumption).now
            timed = query.model_copy(update={"now": now})
        patient = self.question.patient_fhir_id
        result = execute(timed, self.context.store, patient, self._executed_by, chart=self.chart)
        return result.model_copy(update={"query": query})


class Planned(NamedTuple):
    """What the planner came to: queries with their results, else no query and why."""

    plan: Plan
    results: tuple[QueryResult, ...] = ()


class _Execution(NamedTuple):
    """The results of all queries, None if one cannot be executed.

    `feedback` tells the planner what to change.
    """

    results: tuple[QueryResult, ...] | None
    feedback: str

    @property
    def has_rows(self) -> bool:
        return self.results is not None and all(result.chosen for result in self.results)


async def plan_and_execute(planning: Planning) -> Planned:
    """Ask the planner until its queries have rows, or it hands over, up to the limit of turns.

    After a query without rows, the model is told which limit left none; the same queries again, or
    no better ones, make the empty result final. Raises `CaseFailed`.
    """
    task = await _first_task(planning)
    empty: Planned | None = None
    max_turns = planning.settings.planner_turns
    for turn in range(1, max_turns + 1):
        task = task.model_copy(update={"last_turn": turn == max_turns})
        plan = await PlannerAgent().run(task, planning.context)
        if plan.look_up:
            lookups = await asyncio.to_thread(_look_up, planning, plan)
            task = task.model_copy(update={"found": (*task.found, *lookups)})
            continue
        if not plan.queries:
            return Planned(plan)
        execution = await asyncio.to_thread(_execute, planning, plan.queries)
        if execution.results is not None:
            planned = Planned(plan, execution.results)
            if _is_final(planning, execution, empty):
                return planned
            empty = planned
        if not planning.uses_model:
            message = "The query cannot be carried out"
            raise Unusable(f"{message}.", f"{message}: {execution.feedback}")
        attempt = QueryAttempt(query=_queries_text(plan.queries), outcome=execution.feedback)
        task = task.model_copy(update={"tried": (*task.tried, attempt)})
    if empty is not None:
        return empty
    raise Unusable(f"The planner wrote no query that could be carried out in {max_turns} turns.")


async def parse_instead(planning: Planning, failure: CaseFailed) -> Planned:
    """The parser's result where the model wrote no query.

    Raises the model's failure if the parser has none.
    """
    parser = GrammarBackend(planning.context.store)
    try:
        plan = await parser.run(PlannerAgent(), _task(planning), planning.context)
    except Refused:
        raise failure from None
    execution = await asyncio.to_thread(_execute, planning, plan.queries)
    if execution.results is None:
        raise failure
    return Planned(plan, execution.results)


def _is_final(planning: Planning, execution: _Execution, empty: Planned | None) -> bool:
    """Whether all results have rows, no feedback can change them, or the planner repeats itself."""
    if execution.has_rows or not planning.uses_model:
        return True
    assert execution.results is not None
    if not any(_may_be_asked_otherwise(planning, result) for result in execution.results):
        return True
    repeated = [result.query for result in execution.results]
    return empty is not None and [result.query for result in empty.results] == repeated


def _may_be_asked_otherwise(planning: Planning, result: QueryResult) -> bool:
    """Whether the query found nothing, and another one may find what it was meant to find."""
    contents = planning.contents
    if result.chosen or result.query.what not in contents.kinds:
        return False
    return may_be_asked_otherwise(result, contents, planning.execute)


def _task(planning: Planning) -> PlannerTask:
    question = planning.question
    return PlannerTask(
        question=question.question,
        patient_fhir_id=question.patient_fhir_id,
        assumption=question.assumption,
        everyday=planning.conventions == CLINICAL.name,
        most_queries=planning.settings.most_queries,
        leaves_out_later_rows=planning.cutoff is not None,
    )


async def _first_task(planning: Planning) -> PlannerTask:
    """The question, and for a model the card of the patient's record and its names for the
    question's words.

    The parser reads the record itself.
    """
    task = _task(planning)
    if not planning.uses_model:
        return task
    seen = await asyncio.to_thread(_first_look, planning)
    return task.model_copy(update=seen)


def _first_look(planning: Planning) -> dict[str, Any]:
    """The card of the record, and what the words of the question are called in it."""
    named = look_up_question(planning.contents, planning.question.question)
    found = tuple(LookupResult(words=each.words, lines=each.lines) for each in named)
    return {"card": contents_card(planning.contents), "found": found}


def _execute(planning: Planning, queries: Iterable[Query]) -> _Execution:
    """Carry out queries; each is kept in the trace."""
    results = []
    feedback = []
    problems = False
    for query in map(with_concept_names, queries):
        try:
            result = planning.execute(query)
        except (CannotExecute, FhirError) as error:
            planning.trace.append({"query": query_fields(query), "error": str(error)})
            feedback.append(str(error))
            problems = True
            continue
        planning.trace.append(_trace_entry(query, result))
        results.append(result)
        if planning.uses_model:
            feedback += _feedback(planning, result)
    return _Execution(None if problems else tuple(results), "\n".join(feedback))


def _feedback(planning: Planning, result: QueryResult) -> list[str]:
    """What the planner is told of a result, where one of its queries found nothing."""
    if result.chosen:
        return [f"Rows found: {len(result.chosen)}. {result.query.sentence}"]
    return [*explain_empty(result, planning.contents, planning.execute), _STAND_BY]


def _trace_entry(query: Query, result: QueryResult) -> dict[str, Any]:
    return {
        "query": query_fields(query),
        "sentence": query.sentence,
        "answer": format_agent_answer(result),
    }


def _look_up(planning: Planning, plan: Plan) -> list[LookupResult]:
    contents = planning.contents
    return [LookupResult(words=words, lines=look_up(contents, words)) for words in plan.look_up]


def _queries_text(queries: Iterable[Query]) -> str:
    return "\n".join(query.model_dump_json(exclude_defaults=True) for query in queries)


def query_fields(query: Query) -> dict[str, Any]:
    """A query as JSON values, without what it leaves open."""
    return query.model_dump(mode="json", exclude_defaults=True)
