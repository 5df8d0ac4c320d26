"""Questions about a record by a typed query.

A backend writes the query, the executor computes the answer.

In `planner` a model writes it, with a card of the record and look-ups of its names; in `embedded`
the parser. Either way the same executor computes the answer and the resources it rests on. What no
query expresses the planner hands over to an agent that works with code.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from archqa.agents import sandbox
from archqa.agents.agent import RunContext
from archqa.agents.grammar_backend import GrammarBackend
from archqa.agents.planner import (
    LookupResult,
    Plan,
    PlannerAgent,
    PlannerTask,
    QueryAttempt,
)
from archqa.core.question import RecordQuestion
from archqa.core.value import JsonObject
from archqa.errors import CaseFailed, Refused, Unusable
from archqa.fhir import FhirError, Record
from archqa.query import (
    CannotExecute,
    Chart,
    Query,
    QueryResult,
    Row,
    execute,
    format_agent_answer,
)
from archqa.query.contents import RecordContents, contents_card, contents_of
from archqa.query.conventions import (
    CLINICAL,
    Conventions,
    at_stated_time,
    get_conventions,
)
from archqa.query.execution.chart import ChartCache
from archqa.query.execution.named_rows import concepts_called, with_concept_names
from archqa.query.execution.time_windows import cutoff, resolve_now
from archqa.query.kinds import KINDS, RowKind
from archqa.query.lookup import (
    explain_empty,
    look_up,
    look_up_question,
    may_be_asked_otherwise,
    relevant_concepts,
)
from archqa.query.questions.calendar import read_stated_time
from archqa.query.questions.everyday import patient_vocabulary
from archqa.query.questions.everyday.declining import judgement_reasons
from archqa.query.questions.everyday.phrases import mark
from archqa.query.questions.everyday.reader import subject_of
from archqa.query.wording.queries import query_text
from archqa.tasks.fhir_agentbench.agents import RecordCodeAgent, TypeCount
from archqa.tasks.fhir_agentbench.published_agents import (
    FINAL_PHRASE,
    answer_by_code,
    record_task,
)
from archqa.tasks.fhir_agentbench.settings import (
    MultiTurnCodeSettings,
    TypedQuerySettings,
)
from archqa.tasks.fhir_agentbench.task import Ids, RecordResult
from archqa.tasks.fhir_agentbench.tools import (
    GetReferredResources,
    GetResourcesOfThisPatient,
    LaterResources,
)
from archqa.tasks.pipeline import PipelineResult

CONVENTIONS = "mimic-ehrsql"
"""The conventions of FHIR-AgentBench's questions, unless the settings name others."""

HANDED_OVER = "no query expresses the question: an agent answered it with code"

CODE_AGENT_SETTINGS = MultiTurnCodeSettings(
    official=False, iterations=12, context_limit=100_000
)
"""Without the benchmark's quirks; 12 turns of at most 20,000 characters fit 100,000 tokens."""

_MAX_ROWS = 200
"""Rows stored with an answer; a warning counts the rest."""

_MAX_CITED = 12
"""Citations of an answer by code: more of them no reader checks."""

_CARD_CHARACTERS_OF_NEXT_TURN = 1000
_MAX_LINES_OF_LOOKUP = 4
_MAX_OUTCOME_CHARACTERS = 1200
_MAX_FOUND_CHARACTERS = 2000
"""Of what the words of a question are called; the planner may look the others up."""

_SUBJECTS: dict[RowKind, tuple[str, ...]] = {
    "observation": ("measurements",),
    "microbiology_test": ("microbiology",),
    "organism": ("microbiology",),
    "susceptibility": ("microbiology",),
    "administration": ("medication",),
    "diagnosis": ("history",),
    "hospital_visit": ("encounter",),
    "icu_stay": ("encounter",),
    "report": ("imaging",),
}
"""What the grammar calls the subject of a question that may be about a kind of rows, too."""

_RESOURCES_LINE = re.compile(
    r"^[^\S\n]*+\**resources?\**\s*+:", re.IGNORECASE | re.MULTILINE
)

_chart_caches: WeakKeyDictionary[Record, ChartCache] = WeakKeyDictionary()
"""The charts of a record, for the next question of the run."""


async def typed_query(
    question: RecordQuestion, context: RunContext, settings: TypedQuerySettings
) -> PipelineResult:
    """Ask for a query until one can be executed, up to the limit of turns.

    Raises `CaseFailed`: `Refused` where the planner declines a judgement, with its related queries
    as the result.
    """
    charts = _chart_caches.setdefault(context.store, ChartCache(context.store))
    chart = await asyncio.to_thread(charts.of, question.patient_fhir_id)
    planning = Planning(question, context, settings, chart, [])
    remarks: tuple[str, ...] = ()
    try:
        planned = await plan_and_execute(planning)
    except FhirError as error:
        message = "The record refuses what is asked of it"
        raise Unusable(f"{message}.", f"{message}: {error}") from None
    except CaseFailed as failure:
        is_final = isinstance(failure, Refused) or not planning.uses_model
        if is_final or not settings.fallback:
            failure.result = RecordResult(answer=None, trace=tuple(planning.trace))
            raise
        planned = await parse_instead(planning, failure)
        remarks = (
            f"the parser writes the query: the planner failed ({type(failure).__name__})",
        )
    if planned.results:
        return PipelineResult(
            result=_result(planning, planned.results), remarks=remarks
        )
    if planned.plan.declined is not None:
        declined = planned.plan.declined
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
        raise refusal
    planning.trace.append({"not_in_language": planned.plan.not_in_language})
    try:
        result = await hand_over(planning, planned.plan.not_in_language)
    except CaseFailed as failure:
        failure.result = RecordResult(answer=None, trace=tuple(planning.trace))
        raise
    result = result.model_copy(update={"trace": (*planning.trace, *result.trace)})
    return PipelineResult(result=result, remarks=(HANDED_OVER,))


class Planning(NamedTuple):
    """One question in progress; `trace` collects what was carried out."""

    question: RecordQuestion
    context: RunContext
    settings: TypedQuerySettings
    chart: Chart
    trace: list[JsonObject]

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
        now = read_stated_time(self.question.assumption)
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
            now = read_stated_time(self.question.assumption)
            timed = query.model_copy(update={"now": now})
        patient = self.question.patient_fhir_id
        result = execute(
            timed, self.context.store, patient, self._executed_by, chart=self.chart
        )
        return result.model_copy(update={"query": query})

    @property
    def task(self) -> PlannerTask:
        """What the planner is asked."""
        question = self.question
        return PlannerTask(
            question=question.question,
            patient_fhir_id=question.patient_fhir_id,
            assumption=question.assumption,
            everyday=self.conventions == CLINICAL.name,
            most_queries=self.settings.most_queries,
            leaves_out_later_rows=self.cutoff is not None,
        )


class Planned(NamedTuple):
    """What the planner came to: queries with their results, else no query and why."""

    plan: Plan
    results: tuple[QueryResult, ...] = ()

    @property
    def queries(self) -> list[Query]:
        """The queries as they were carried out."""
        return [result.query for result in self.results]


async def plan_and_execute(planning: Planning) -> Planned:
    """Ask the planner until its queries have rows, or it hands over, up to the limit of turns.

    After a query without rows, the model is told which limit left none; the same queries again, or
    no better ones, make the empty result final. Raises `CaseFailed`.
    """
    task = planning.task
    if planning.uses_model:  # The parser reads the record itself.
        task = await asyncio.to_thread(_with_first_look, planning, task)
    empty: Planned | None = None
    max_turns = planning.settings.planner_turns
    for turn in range(1, max_turns + 1):
        task = task.model_copy(update={"last_turn": turn == max_turns})
        plan = await PlannerAgent().run(task, planning.context)
        if plan.look_up:
            lookups = await asyncio.to_thread(_look_up, planning, plan)
            task = task.model_copy(update={"found": (*task.found, *lookups)})
            task = _for_next_turn(planning, task)
            continue
        if not plan.queries:
            return Planned(plan)
        results, feedback = await asyncio.to_thread(_execute, planning, plan.queries)
        if results is not None:
            planned = Planned(plan, results)
            if _is_final(planning, planned, empty):
                return planned
            empty = planned
        if not planning.uses_model:
            message = "The query cannot be carried out"
            raise Unusable(f"{message}.", f"{message}: {feedback}")
        queries = [
            query.model_dump_json(exclude_defaults=True) for query in plan.queries
        ]
        outcome = feedback[:_MAX_OUTCOME_CHARACTERS]
        attempt = QueryAttempt(query="\n".join(queries), outcome=outcome)
        task = task.model_copy(update={"tried": (*task.tried, attempt)})
        task = _for_next_turn(planning, task)
    if empty is not None:
        return empty
    raise Unusable(
        f"The planner wrote no query that could be carried out in {max_turns} turns."
    )


async def parse_instead(planning: Planning, failure: CaseFailed) -> Planned:
    """The parser's result where the model wrote no query.

    Raises the model's failure if the parser has none.
    """
    parser = GrammarBackend(planning.context.store)
    try:
        plan = await parser.run(PlannerAgent(), planning.task, planning.context)
    except Refused:
        raise failure from None
    results, _ = await asyncio.to_thread(_execute, planning, plan.queries)
    if results is None:
        raise failure
    return Planned(plan, results)


async def hand_over(planning: Planning, reason: str) -> RecordResult:
    """The answer of the code agent to a question that no query expresses, for the planner's reason.

    What is dated after the time of the question is left out with a warning. Its citations are
    resources that it read; no query verified them. Raises `Unusable` with the reason in its details
    where no agent can run code, or none comes to an answer; `ModelError`.
    """
    message = "The question cannot be written as a query"
    failure = Unusable(
        f"{message}, and no agent answered it with code.", f"{message}: {reason}"
    )
    context, patient = planning.context, planning.question.patient_fhir_id
    if RecordCodeAgent.name not in context.backends or not sandbox.is_installed():
        raise failure
    type_counts = []
    counts = await asyncio.to_thread(context.store.counts, patient)
    for resource_type, count in counts.items():
        if count:
            type_counts.append(TypeCount(type=resource_type, count=count))
    end = planning.cutoff
    later = LaterResources(end)
    changes: dict[str, Any] = {
        "type_counts": type_counts,
        "leaves_out_later_rows": bool(end),
    }
    task = record_task(planning.question).model_copy(update=changes)
    tools = (
        GetResourcesOfThisPatient(patient, later),
        GetReferredResources(patient, later),
    )
    try:
        outcome = await answer_by_code(
            RecordCodeAgent(), task, context, CODE_AGENT_SETTINGS, tools
        )
    except CaseFailed:
        raise failure from None
    result = outcome.result
    assert isinstance(result, RecordResult)
    text = final_text(result.answer or "")
    if not text:
        raise failure
    cited: Ids = {}
    for resource_type, ids in result.cited.items():
        room = _MAX_CITED - sum(map(len, cited.values()))
        if room > 0:
            cited[resource_type] = ids[:room]
    changes = {
        "answer": text,
        "cited": cited,
        "handed_over": reason,
        "warnings": later.warnings,
    }
    return result.model_copy(update=changes)


def final_text(message: str) -> str:
    """The sentences after the final phrase, without the line of resources; empty without any."""
    start = message.lower().rfind(FINAL_PHRASE)
    if start < 0:
        return ""
    answer = message[start + len(FINAL_PHRASE) :]
    return " ".join(_RESOURCES_LINE.split(answer)[0].split()).strip("* ")


def _with_first_look(planning: Planning, task: PlannerTask) -> PlannerTask:
    """The task with a card of the record, and what the words of the question are called in it."""
    contents = planning.contents
    question = planning.question.question
    lookups = look_up_question(contents, question)
    kinds = _kinds_in_question(planning)
    room = _MAX_FOUND_CHARACTERS
    found = []
    for lookup in lookups:
        kinds |= lookup.kinds
        room -= len("\n".join(lookup.lines))
        if room > 0:
            found.append(LookupResult(words=lookup.words, lines=lookup.lines))
    listed = [what for what in KINDS if what in kinds]
    changes: dict[str, Any] = {
        "card": contents_card(contents, kinds=listed),
        "found": tuple(found),
    }
    if task.everyday:
        changes["concepts"] = relevant_concepts(contents, question, listed)
    return task.model_copy(update=changes)


def _kinds_in_question(planning: Planning) -> set[RowKind]:
    """The kinds of rows that the words of the question speak of, as the grammar reads them."""
    patient = planning.question.patient_fhir_id
    vocabulary = patient_vocabulary(planning.context.store, patient)
    clause = mark(planning.question.question, vocabulary)
    named = {subject_of(clause), *(each.value for each in clause.of("row"))}
    kinds: set[RowKind] = set()
    for kind in KINDS.values():
        if kind.what in named or not named.isdisjoint(_SUBJECTS.get(kind.what, ())):
            kinds.add(kind.what)
    return kinds


def _look_up(planning: Planning, plan: Plan) -> list[LookupResult]:
    contents = planning.contents
    results = []
    for words in plan.look_up:
        lines = look_up(contents, words, limit=_MAX_LINES_OF_LOOKUP)
        results.append(LookupResult(words=words, lines=lines))
    return results


def _for_next_turn(planning: Planning, task: PlannerTask) -> PlannerTask:
    """The task without what its first turn had and the next one does not need: names on the card."""
    kinds = _kinds_in_question(planning)
    card = contents_card(planning.contents, _CARD_CHARACTERS_OF_NEXT_TURN, kinds)
    return task.model_copy(update={"card": card, "concepts": ()})


def _is_final(planning: Planning, planned: Planned, empty: Planned | None) -> bool:
    """Whether all results have rows, no feedback can change them, or the planner repeats itself."""
    results, contents = planned.results, planning.contents
    if all(result.chosen for result in results) or not planning.uses_model:
        return True
    for result in results:
        # Another query may find what this one was meant to find.
        if result.chosen or result.query.what not in contents.kinds:
            continue
        if may_be_asked_otherwise(result, contents, planning.execute):
            return empty is not None and empty.queries == planned.queries
    return True


def _execute(
    planning: Planning, queries: Iterable[Query]
) -> tuple[tuple[QueryResult, ...] | None, str]:
    """The results of all queries, None if one cannot be executed, and what to tell the planner.

    Each query is added to the trace.
    """
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
        answer = format_agent_answer(result)
        step = {
            "query": query_fields(query),
            "sentence": query_text(query),
            "answer": answer,
        }
        planning.trace.append(step)
        results.append(result)
        if planning.uses_model and result.chosen:
            feedback.append(
                f"Rows found: {len(result.chosen)}. {query_text(result.query)}"
            )
        elif planning.uses_model:
            feedback += explain_empty(result, planning.contents, planning.execute)
            feedback.append(
                "If the record holds nothing of the kind, give the same query again."
            )
    return None if problems else tuple(results), "\n".join(feedback)


def _result(planning: Planning, results: tuple[QueryResult, ...]) -> RecordResult:
    rows: list[Row] = []
    warnings: dict[str, None] = {}
    retrieved: Ids = {}
    cited: Ids = {}
    for result in results:
        rows += result.rows
        warnings.update(dict.fromkeys(result.warnings))
        if planning.uses_model and not result.chosen:
            warnings.update(dict.fromkeys(_searched_by_name(result.query)))
        _add_ids(retrieved, result.retrieved)
        _add_ids(cited, result.evidence)
    if len(rows) > _MAX_ROWS:
        warnings[f"{len(rows) - _MAX_ROWS} more rows are not listed."] = None
    chosen_first = sorted(rows, key=lambda row: not row.chosen)
    return RecordResult(
        answer="; ".join(map(format_agent_answer, results)),
        retrieved=retrieved,
        cited=cited,
        trace=tuple(planning.trace),
        sentence=" ".join(query_text(result.query) for result in results),
        rows=tuple(map(row_fields, chosen_first[:_MAX_ROWS])),
        warnings=tuple(warnings),
        **_query_results(result.query for result in results),
    )


def _searched_by_name(query: Query) -> Iterator[str]:
    """What a model's query without rows searched by words that the record may not use."""
    names = [*query.names]
    for reason in query.reasons:
        if not concepts_called(reason):
            names.append(reason)
    if query.companion is not None:
        names += query.companion.names
    if names:
        listed = "” or “".join(names)
        yield f"“{listed}” was searched by name alone, not by codes."


def _add_ids(ids: Ids, further: Ids) -> None:
    """Add the ids of another result by type, each once."""
    for resource_type, names in further.items():
        ids[resource_type] = tuple(dict.fromkeys((*ids.get(resource_type, ()), *names)))


def _query_results(queries: Iterable[Query]) -> JsonObject:
    """The fields of a result that hold queries."""
    fields = list(map(query_fields, queries))
    return {"query": next(iter(fields), None), "further_queries": tuple(fields[1:])}


def query_fields(query: Query) -> JsonObject:
    """A query as JSON values, without what it leaves open."""
    return query.model_dump(mode="json", exclude_defaults=True)


def row_fields(row: Row) -> JsonObject:
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
    return {
        name: value for name, value in fields.items() if value not in ("", None, {}, [])
    }
