"""Questions about a record by way of a typed query: a mind writes the query, the executor computes the answer.

`planner` lets a model write it, with the record's card and a look into its codes; `embedded` lets the parser. Either
way the answer, and the resources it rests on, come out of the same executor.
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
"""What a question of FHIR-AgentBench means unless told otherwise."""

_HITS = 12
_ROWS = 200
"""Rows that are kept with an answer; the warnings say how many more there are."""

_charts: WeakKeyDictionary[Any, ChartCache] = WeakKeyDictionary()


class _Work(NamedTuple):
    """One question under way."""

    question: RecordQuestion
    desk: RunContext
    settings: TypedQuerySettings
    chart: Chart
    trace: list[dict[str, Any]]

    @property
    def by_model(self) -> bool:
        """Whether what is told to the planner can change what it does."""
        return self.desk.backend(PlannerAgent.name).kind != GrammarBackend.kind


async def typed_query(
    question: RecordQuestion, desk: RunContext, settings: TypedQuerySettings
) -> PipelineResult:
    """Ask for a query until one can be carried out, up to the budget. Raises `CaseFailed`."""
    chart = await asyncio.to_thread(_chart, desk.store, question.patient_fhir_id)
    work = _Work(question, desk, settings, chart, [])
    remarks: tuple[str, ...] = ()
    try:
        findings = await _planned(work)
    except FhirError as error:
        raise Unusable(f"The record refuses what is asked of it: {error}") from None
    except CaseFailed as failure:
        if not (work.by_model and settings.fallback) or isinstance(failure, Refused):
            failure.result = RecordResult(answer=None, trace=tuple(work.trace))
            raise
        findings = await _parsed(work, failure)
        remarks = (f"the parser writes the query: the planner failed ({type(failure).__name__})",)
    return PipelineResult(result=_result(work, findings), remarks=remarks)


def _chart(record: Record, patient: str) -> Chart:
    """The patient's chart, kept for the next question of the run."""
    return _charts.setdefault(record, ChartCache(record)).of(patient)


async def _planned(work: _Work) -> QueryResult:
    """Turns of the planner. A query that finds nothing is told to a model once, with names that are like its own."""
    task = await _opening(work)
    empty: QueryResult | None = None
    for left in range(work.settings.planner_turns - 1, -1, -1):
        task = task.model_copy(update={"last_turn": left == 0})
        plan = await PlannerAgent().run(task, work.desk)
        if plan.query is None:
            task = task.model_copy(
                update={"found": (*task.found, *await asyncio.to_thread(_looked_up, work, plan))}
            )
            continue
        findings, outcome = await asyncio.to_thread(_carried_out, work, plan.query)
        if findings is not None and (
            findings.chosen or not work.by_model or _same(findings, empty)
        ):
            return findings
        if not work.by_model:
            raise Unusable(f"The query cannot be carried out: {outcome}")
        empty = findings or empty
        task = task.model_copy(
            update={
                "tried": (*task.tried, QueryAttempt(query=_written(plan.query), outcome=outcome))
            }
        )
    if empty is not None:
        return empty
    raise Unusable(
        f"The planner wrote no query that could be carried out in {work.settings.planner_turns} turns."
    )


async def _parsed(work: _Work, failure: CaseFailed) -> QueryResult:
    """What the parser makes of a question the model has no query for. Raises the model's failure if nothing."""
    try:
        plan = await GrammarBackend(work.desk.store).run(PlannerAgent(), _task(work), work.desk)
    except Refused:
        raise failure from None
    assert plan.query is not None
    findings, _ = await asyncio.to_thread(_carried_out, work, plan.query)
    if findings is None:
        raise failure
    return findings


def _task(work: _Work) -> PlannerTask:
    question = work.question
    return PlannerTask(
        question=question.question,
        patient_fhir_id=question.patient_fhir_id,
        assumption=question.assumption,
    )


async def _opening(work: _Work) -> PlannerTask:
    """A model is shown the card of the patient's record; the parser has the record itself."""
    if not work.by_model:
        return _task(work)
    shown = await asyncio.to_thread(
        build_schema_card, work.desk.store, work.question.patient_fhir_id
    )
    return _task(work).model_copy(update={"card": shown.text})


def _carried_out(work: _Work, query: Query) -> tuple[QueryResult | None, str]:
    """What a query gives; None and why, in words, if it cannot be carried out."""
    try:
        conventions = work.settings.conventions or CONVENTIONS
        findings = execute(
            query, work.desk.store, work.question.patient_fhir_id, conventions, chart=work.chart
        )
    except (CannotExecute, FhirError) as error:
        work.trace.append({"query": _plain(query), "error": str(error)})
        return None, str(error)
    work.trace.append(
        {
            "query": _plain(query),
            "sentence": query.sentence,
            "answer": format_agent_answer(findings),
        }
    )
    return findings, _nothing_found(work, findings)


def _nothing_found(work: _Work, findings: QueryResult) -> str:
    """What a planner is told of a query without rows: what was searched, and names like those it gave."""
    if findings.chosen:
        return ""
    like = (line for name in findings.query.names for line in _hits(work, name))
    names = "\n".join(dict.fromkeys(like))
    said = f"Nothing was found. Searched: {'; '.join(findings.searched)}."
    hint = f"\nSimilar names in the record:\n{names}" if names else ""
    return f"{said}{hint}\nIf the record holds nothing of the kind, give the same query again."


def _looked_up(work: _Work, plan: Plan) -> tuple[LookupResult, ...]:
    return tuple(
        LookupResult(words=words, lines=tuple(_hits(work, words))) for words in plan.look_up
    )


def _hits(work: _Work, words: str) -> list[str]:
    found = [
        hit.found
        for hit in lookup(
            work.desk.store, words, patient=work.question.patient_fhir_id, limit=_HITS
        )
    ]
    return [
        f'{each.type} {each.element} {each.code} "{each.display}" ({each.count})' for each in found
    ]


def _same(findings: QueryResult, before: QueryResult | None) -> bool:
    """Whether a planner that was told of an empty query stands by it."""
    return before is not None and findings.query == before.query


def _plain(query: Query) -> dict[str, Any]:
    return query.model_dump(mode="json", exclude_defaults=True)


def _written(query: Query) -> str:
    return query.model_dump_json(exclude_defaults=True)


def _result(work: _Work, findings: QueryResult) -> RecordResult:
    rows = findings.rows
    more = (f"{len(rows) - _ROWS} more rows are not listed.",) if len(rows) > _ROWS else ()
    return RecordResult(
        answer=format_agent_answer(findings),
        retrieved=findings.retrieved,
        cited=findings.evidence,
        trace=tuple(work.trace),
        query=_plain(findings.query),
        sentence=findings.query.sentence,
        rows=tuple(row_fields(row) for row in sorted(rows, key=lambda row: not row.chosen)[:_ROWS]),
        warnings=(*findings.warnings, *more),
    )


def row_fields(row: Any) -> dict[str, Any]:
    """A row of the record as JSON values; what it does not have is left out."""
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
