"""Questions about a record by a typed query.

A backend writes the query, the executor computes the answer.

In `planner` a model writes it, with a card of the record and look-ups of its names; in `embedded`
the parser. Either way the same executor computes the answer and the resources it rests on. What no
query expresses the planner hands over to an agent that works with code.
"""

import asyncio
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from archqa.agents.agent import RunContext
from archqa.agents.planner import Judgement
from archqa.core.question import RecordQuestion
from archqa.errors import CaseFailed, Refused, Unusable
from archqa.fhir import FhirError, Record
from archqa.query import Chart, Query, QueryResult, Row, format_agent_answer
from archqa.query.execution.chart import ChartCache
from archqa.query.questions.everyday.declining import judgement_reasons
from archqa.tasks.fhir_agentbench.pipelines.hand_over import hand_over
from archqa.tasks.fhir_agentbench.pipelines.planning import (
    Planned,
    Planning,
    parse_instead,
    plan_and_execute,
    query_fields,
)
from archqa.tasks.fhir_agentbench.result import Ids, RecordResult
from archqa.tasks.fhir_agentbench.settings import TypedQuerySettings
from archqa.tasks.pipeline import PipelineResult

_MAX_ROWS = 200
"""Rows stored with an answer; a warning counts the rest."""

HANDED_OVER = "no query expresses the question: an agent answered it with code"

_chart_caches: WeakKeyDictionary[Any, ChartCache] = WeakKeyDictionary()


async def typed_query(
    question: RecordQuestion, context: RunContext, settings: TypedQuerySettings
) -> PipelineResult:
    """Ask for a query until one can be executed, up to the limit of turns.

    Raises `CaseFailed`: `Refused` where the planner declines a judgement, with its related queries
    as the result.
    """
    chart = await asyncio.to_thread(_chart, context.store, question.patient_fhir_id)
    planning = Planning(question, context, settings, chart, [])
    remarks: tuple[str, ...] = ()
    try:
        planned = await plan_and_execute(planning)
    except FhirError as error:
        message = "The record refuses what is asked of it"
        raise Unusable(f"{message}.", f"{message}: {error}") from None
    except CaseFailed as failure:
        if not _may_fall_back(planning, failure):
            _keep_trace(failure, planning)
            raise
        planned = await parse_instead(planning, failure)
        remarks = (f"the parser writes the query: the planner failed ({type(failure).__name__})",)
    if planned.results:
        return PipelineResult(result=_result(planning, planned.results), remarks=remarks)
    if planned.plan.declined is not None:
        raise _refusal(planning, planned.plan.declined)
    return await _handed_over(planning, planned)


async def _handed_over(planning: Planning, planned: Planned) -> PipelineResult:
    """The answer of the code agent, with the turns of both in the trace."""
    planning.trace.append({"not_in_language": planned.plan.not_in_language})
    try:
        result = await hand_over(
            planning.question,
            planning.context,
            planned.plan.not_in_language,
            end=planning.cutoff,
        )
    except CaseFailed as failure:
        _keep_trace(failure, planning)
        raise
    result = result.model_copy(update={"trace": (*planning.trace, *result.trace)})
    return PipelineResult(result=result, remarks=(HANDED_OVER,))


def _keep_trace(failure: CaseFailed, planning: Planning) -> None:
    failure.result = RecordResult(answer=None, trace=tuple(planning.trace))


def _refusal(planning: Planning, declined: Judgement) -> Refused:
    """That a judgement is declined, with its kind and the queries for related facts."""
    refusal = Refused(
        "The question asks for a judgement, which the record does not hold.",
        judgement_reasons()[declined.kind],
    )
    refusal.result = RecordResult(
        answer=None,
        trace=tuple(planning.trace),
        declined=declined.kind,
        **_query_results(declined.related),
    )
    return refusal


def _may_fall_back(planning: Planning, failure: CaseFailed) -> bool:
    """Whether the parser may replace the model; a refusal stands."""
    if isinstance(failure, Refused):
        return False
    return planning.uses_model and planning.settings.fallback


def _chart(record: Record, patient: str) -> Chart:
    """The patient's chart, cached for the next question of the run."""
    cache = _chart_caches.setdefault(record, ChartCache(record))
    return cache.of(patient)


def _query_results(queries: Iterable[Query]) -> dict[str, Any]:
    """The fields of a result that hold queries."""
    fields = [query_fields(query) for query in queries]
    return {"query": next(iter(fields), None), "further_queries": tuple(fields[1:])}


def _result(planning: Planning, results: tuple[QueryResult, ...]) -> RecordResult:
    rows = [row for result in results for row in result.rows]
    chosen_first = sorted(rows, key=lambda row: not row.chosen)
    warnings = list(dict.fromkeys(each for result in results for each in result.warnings))
    if len(rows) > _MAX_ROWS:
        warnings.append(f"{len(rows) - _MAX_ROWS} more rows are not listed.")
    return RecordResult(
        answer="; ".join(map(format_agent_answer, results)),
        retrieved=_united(result.retrieved for result in results),
        cited=_united(result.evidence for result in results),
        trace=tuple(planning.trace),
        sentence=" ".join(result.query.sentence for result in results),
        rows=tuple(row_fields(row) for row in chosen_first[:_MAX_ROWS]),
        warnings=tuple(warnings),
        **_query_results(result.query for result in results),
    )


def _united(parts: Iterable[Ids]) -> Ids:
    """The ids of all parts by type, each once."""
    united: dict[str, dict[str, None]] = {}
    for part in parts:
        for resource_type, ids in part.items():
            united.setdefault(resource_type, {}).update(dict.fromkeys(ids))
    return {resource_type: tuple(ids) for resource_type, ids in united.items()}


def row_fields(row: Row) -> dict[str, Any]:
    """A row of the record as JSON values, without empty fields."""
    fields = {
        "references": list(row.refs),
        "name": row.name,
        "time": row.time.isoformat(" ") if row.time else "",
        "end": row.end.isoformat(" ") if row.end else "",
        "value": row.value,
        "text": row.text,
        "unit": row.unit,
        "facts": {name: list(values) for name, values in row.facts.items()},
        "chosen": row.chosen,
        "side": row.side if row.side != "own" else "",
    }
    return {name: value for name, value in fields.items() if value not in ("", None, {}, [])}
