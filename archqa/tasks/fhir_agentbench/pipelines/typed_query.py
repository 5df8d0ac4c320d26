"""Questions about a record by a typed query.

A backend writes the query, the executor computes the answer.

In `planner` a model writes it, with a card of the record and look-ups of its codes; in `embedded`
the parser. Either way the same executor computes the answer and the resources it rests on.
"""

import asyncio
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from archqa.agents.agent import RunContext
from archqa.agents.grammar_backend import GrammarBackend
from archqa.agents.planner import LookupResult, Plan, PlannerAgent, PlannerTask, QueryAttempt
from archqa.core.question import RecordQuestion
from archqa.errors import CaseFailed, Refused, Unusable
from archqa.fhir import FhirError, Record, build_schema_card, lookup
from archqa.query import CannotExecute, Chart, Query, QueryResult, execute, format_agent_answer
from archqa.query.execution.chart import ChartCache
from archqa.tasks.fhir_agentbench.result import RecordResult
from archqa.tasks.fhir_agentbench.settings import TypedQuerySettings
from archqa.tasks.pipeline import PipelineResult

CONVENTIONS = "mimic-ehrsql"
"""The conventions of FHIR-AgentBench's questions, unless the settings name others."""

_MAX_LOOKUP_HITS = 12
_MAX_ROWS = 200
"""Rows stored with an answer; a warning counts the rest."""

_chart_caches: WeakKeyDictionary[Any, ChartCache] = WeakKeyDictionary()


class _State(NamedTuple):
    """One question in progress."""

    question: RecordQuestion
    context: RunContext
    settings: TypedQuerySettings
    chart: Chart
    trace: list[dict[str, Any]]

    @property
    def uses_model(self) -> bool:
        """Whether a model writes the query, so that feedback can change it."""
        return self.context.backend(PlannerAgent.name).kind != GrammarBackend.kind


class _Execution(NamedTuple):
    """The result of a query, None if it cannot be executed.

    `feedback` tells the planner what to change.
    """

    result: QueryResult | None
    feedback: str


async def typed_query(
    question: RecordQuestion, context: RunContext, settings: TypedQuerySettings
) -> PipelineResult:
    """Ask for a query until one can be executed, up to the limit of turns. Raises `CaseFailed`."""
    chart = await asyncio.to_thread(_chart, context.store, question.patient_fhir_id)
    state = _State(question, context, settings, chart, [])
    remarks: tuple[str, ...] = ()
    try:
        result = await _plan(state)
    except FhirError as error:
        message = "The record refuses what is asked of it"
        raise Unusable(f"{message}.", f"{message}: {error}") from None
    except CaseFailed as failure:
        if not _may_fall_back(state, failure):
            trace = tuple(state.trace)
            failure.result = RecordResult(answer=None, trace=trace)
            raise
        result = await _parse_instead(state, failure)
        remarks = (f"the parser writes the query: the planner failed ({type(failure).__name__})",)
    return PipelineResult(result=_result(state, result), remarks=remarks)


def _may_fall_back(state: _State, failure: CaseFailed) -> bool:
    """Whether the parser may replace the model; a refusal stands."""
    if isinstance(failure, Refused):
        return False
    return state.uses_model and state.settings.fallback


def _chart(record: Record, patient: str) -> Chart:
    """The patient's chart, cached for the next question of the run."""
    cache = _chart_caches.setdefault(record, ChartCache(record))
    return cache.of(patient)


async def _plan(state: _State) -> QueryResult:
    """Turns of the planner.

    After a query without rows, the model receives similar names of the record; the same query
    again, or no better one, makes the empty result final.
    """
    task = await _first_task(state)
    empty_result: QueryResult | None = None
    max_turns = state.settings.planner_turns
    for turn in range(1, max_turns + 1):
        task = task.model_copy(update={"last_turn": turn == max_turns})
        plan = await PlannerAgent().run(task, state.context)
        if plan.query is None:
            lookups = await asyncio.to_thread(_look_up, state, plan)
            task = task.model_copy(update={"found": (*task.found, *lookups)})
            continue
        execution = await asyncio.to_thread(_execute, state, plan.query)
        if execution.result is not None and _is_final(state, execution.result, empty_result):
            return execution.result
        if not state.uses_model:
            message = "The query cannot be carried out"
            raise Unusable(f"{message}.", f"{message}: {execution.feedback}")
        empty_result = execution.result or empty_result
        query_json = plan.query.model_dump_json(exclude_defaults=True)
        attempt = QueryAttempt(query=query_json, outcome=execution.feedback)
        task = task.model_copy(update={"tried": (*task.tried, attempt)})
    if empty_result is not None:
        return empty_result
    raise Unusable(f"The planner wrote no query that could be carried out in {max_turns} turns.")


def _is_final(state: _State, result: QueryResult, empty_result: QueryResult | None) -> bool:
    """Whether a result has rows, no feedback can change it, or the planner repeats its query."""
    if result.chosen or not state.uses_model:
        return True
    return empty_result is not None and result.query == empty_result.query


async def _parse_instead(state: _State, failure: CaseFailed) -> QueryResult:
    """The parser's result where the model wrote no query.

    Raises the model's failure if the parser has none.
    """
    parser = GrammarBackend(state.context.store)
    try:
        plan = await parser.run(PlannerAgent(), _task(state), state.context)
    except Refused:
        raise failure from None
    assert plan.query is not None
    execution = await asyncio.to_thread(_execute, state, plan.query)
    if execution.result is None:
        raise failure
    return execution.result


def _task(state: _State) -> PlannerTask:
    question = state.question
    return PlannerTask(
        question=question.question,
        patient_fhir_id=question.patient_fhir_id,
        assumption=question.assumption,
    )


async def _first_task(state: _State) -> PlannerTask:
    """The question, and for a model the card of the patient's record.

    The parser reads the record itself.
    """
    if not state.uses_model:
        return _task(state)
    card = await asyncio.to_thread(
        build_schema_card, state.context.store, state.question.patient_fhir_id
    )
    return _task(state).model_copy(update={"card": card.text})


def _execute(state: _State, query: Query) -> _Execution:
    conventions = state.settings.conventions or CONVENTIONS
    patient = state.question.patient_fhir_id
    try:
        result = execute(query, state.context.store, patient, conventions, chart=state.chart)
    except (CannotExecute, FhirError) as error:
        state.trace.append({"query": _query_fields(query), "error": str(error)})
        return _Execution(None, str(error))
    entry = {
        "query": _query_fields(query),
        "sentence": query.sentence,
        "answer": format_agent_answer(result),
    }
    state.trace.append(entry)
    if result.chosen:
        return _Execution(result, feedback="")
    return _Execution(result, _empty_result_feedback(state, result))


def _empty_result_feedback(state: _State, result: QueryResult) -> str:
    """What was searched, and names of the record similar to those of the query."""
    similar_names: dict[str, None] = {}
    for name in result.query.names:
        similar_names.update(dict.fromkeys(_lookup_lines(state, name)))
    sentences = [f"Nothing was found. Searched: {'; '.join(result.searched)}."]
    if similar_names:
        sentences += ["Similar names in the record:", *similar_names]
    sentences.append("If the record holds nothing of the kind, give the same query again.")
    return "\n".join(sentences)


def _look_up(state: _State, plan: Plan) -> list[LookupResult]:
    results = []
    for words in plan.look_up:
        lines = tuple(_lookup_lines(state, words))
        results.append(LookupResult(words=words, lines=lines))
    return results


def _lookup_lines(state: _State, words: str) -> list[str]:
    patient = state.question.patient_fhir_id
    hits = lookup(state.context.store, words, patient=patient, limit=_MAX_LOOKUP_HITS)
    lines = []
    for hit in hits:
        code = hit.code
        lines.append(f'{code.type} {code.element} {code.code} "{code.display}" ({code.count})')
    return lines


def _query_fields(query: Query) -> dict[str, Any]:
    return query.model_dump(mode="json", exclude_defaults=True)


def _result(state: _State, result: QueryResult) -> RecordResult:
    chosen_first = sorted(result.rows, key=lambda row: not row.chosen)
    warnings = list(result.warnings)
    if len(result.rows) > _MAX_ROWS:
        warnings.append(f"{len(result.rows) - _MAX_ROWS} more rows are not listed.")
    return RecordResult(
        answer=format_agent_answer(result),
        retrieved=result.retrieved,
        cited=result.evidence,
        trace=tuple(state.trace),
        query=_query_fields(result.query),
        sentence=result.query.sentence,
        rows=tuple(row_fields(row) for row in chosen_first[:_MAX_ROWS]),
        warnings=tuple(warnings),
    )


def row_fields(row: Any) -> dict[str, Any]:
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
