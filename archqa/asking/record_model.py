"""Asks the resources of a record by a model: its queries in words, or an agent's own words."""

import asyncio
from collections.abc import Iterator

from archqa.agents.planner import MOST_QUERIES
from archqa.asking.answer import Answer, AnswerLine, Evidence, Status
from archqa.asking.clock import stated_time
from archqa.asking.question import ModelBackends, Question, StepLog
from archqa.asking.record import (
    PatientQueries,
    answer_of_queries,
    conventions_of,
    declined_with_facts,
)
from archqa.asking.record_answer import not_understood_answer
from archqa.core.id_lists import list_ids
from archqa.core.question import RecordQuestion
from archqa.errors import CaseFailed, NotUnderstood, Refused
from archqa.fhir import FhirError, Record, Resource, display_name
from archqa.query import Query
from archqa.query.kinds import ERROR
from archqa.query.wording.support import all_scalars
from archqa.query.wording.words import clean_name
from archqa.settings import Settings
from archqa.tasks import fhir_agentbench, pipelines
from archqa.tasks.fhir_agentbench.settings import TypedQuerySettings
from archqa.tasks.fhir_agentbench.task import RecordResult, row_text, rows_by_reference
from archqa.tasks.fhir_agentbench.tools import is_later
from archqa.tasks.fhir_agentbench.typed_query import Planning, hand_over
from archqa.tasks.pipeline import Pipeline

NOT_VERIFIED = (
    "Code that a model wrote gave this answer; no query verified what it cites."
)
_UNCITED = "Code that a model wrote answered without citing resources of the record"


def record_pipeline(settings: Settings) -> Pipeline:
    """The pipeline that is set, if it reads a record; else the default for questions about a record.

    Raises `CallerError` for one that was typed and does not read a record.
    """
    task = fhir_agentbench.NAME
    for pipeline in pipelines.for_task(task):
        if pipeline.name == settings.pipeline and pipeline.prompts:
            return pipeline
    if settings.pipeline and "pipeline" in settings.typed_names:
        return pipelines.find(settings.pipeline, task)
    return pipelines.default(task, model=settings.prefers_model_pipeline)


async def answer_by_model(
    question: Question,
    queries: PatientQueries,
    models: ModelBackends,
    steps: StepLog,
    not_in_language: str = "",
) -> Answer:
    """Return the answer of the pipeline that the settings choose, over the open record.

    Queries are carried out again at the time of the question, verified and worded as those of the
    grammar. Where no query expresses the question, for the reason `not_in_language`, the planner's
    agent for code answers at once. Raises the failure of a model that gave nothing, `ModelError`,
    and as the record does.
    """
    pipeline = record_pipeline(question.settings)
    record = queries.record
    settings = question.settings.replace(
        record=str(question.options.record), pipeline=pipeline.name
    )
    if "conventions" in pipeline.settings_type.model_fields:
        conventions = conventions_of(settings)
        settings = settings.replace(conventions=conventions, most_queries=MOST_QUERIES)
    backends = models.open_for_record(pipeline, settings, record)
    context_text = question.options.context
    if stated_time(context_text) is None:
        opening = f"{context_text.rstrip('. ')}. " if context_text else ""
        now = f"{queries.now:%Y-%m-%d %H:%M:%S}"  # As the benchmark states it.
        context_text = f"{opening}Assume the current time is {now}."
    asked = RecordQuestion(
        id="asked",
        question=question.text,
        patient_fhir_id=queries.chart.patient,
        assumption=context_text,
        is_time_stated=queries.is_time_stated,
    )
    try:
        context = backends.context(steps)
        options = settings.for_pipeline(pipeline)
        if not_in_language and isinstance(options, TypedQuerySettings):
            planning = Planning(asked, context, options, queries.chart, [])
            result = await hand_over(planning, not_in_language)
        else:
            outcome = await pipeline.run(asked, context, options)
            assert isinstance(outcome.result, RecordResult)
            result = outcome.result
        answer = await asyncio.to_thread(_answer, question.text, result, queries)
    except CaseFailed as failure:
        answer = await asyncio.to_thread(_unanswered, question.text, failure, queries)
    return steps.answer_of(backends, answer)


def _answer(question: str, result: RecordResult, queries: PatientQueries) -> Answer:
    if not result.queries:
        return _own_answer(question, result, queries)
    answer = answer_of_queries(question, _queries_of(result), queries)
    remarks = dict.fromkeys((*answer.remarks, *result.warnings))
    return answer.model_copy(update={"remarks": tuple(remarks)})


def _queries_of(result: RecordResult) -> list[Query]:
    """The queries without a time of their own: that of the question counts, not a model's."""
    return [Query.model_validate({**fields, "now": None}) for fields in result.queries]


def _own_answer(question: str, result: RecordResult, queries: PatientQueries) -> Answer:
    """The answer that an agent wrote without a typed query, with what it cites of the record."""
    evidence = tuple(_resource_evidence(result, queries.record))
    remarks = result.warnings
    later = []
    for piece in evidence:
        kind, _, resource_id = piece.id.partition("/")
        resource = _read(queries.record, kind, resource_id)
        if resource is not None and is_later(resource, queries.cutoff):
            later.append(piece.id)
    if later:
        remarks = (*remarks, f"Dated after the question: {list_ids(later)}.")
    text = result.answer or ""
    if result.handed_over and not evidence:
        reason = f"{result.handed_over.rstrip('.')}. {_UNCITED}"
        return not_understood_answer(question, (), reason, queries.patient)
    if not text or not evidence:
        return Answer(
            question=question, status=Status.NOT_FOUND, message=text, remarks=remarks
        )
    if result.handed_over:
        remarks = (*remarks, NOT_VERIFIED)
    line = AnswerLine(text=text, citations=tuple(piece.id for piece in evidence))
    return Answer(
        question=question,
        status=Status.ANSWERED,
        lines=(line,),
        evidence=evidence,
        remarks=remarks,
    )


def _unanswered(question: str, failure: CaseFailed, queries: PatientQueries) -> Answer:
    """Return what a refusal says of the question. Raises the failure of a model that gave nothing."""
    if isinstance(failure.result, RecordResult) and failure.result.declined:
        related = _queries_of(failure.result)
        return declined_with_facts(question, failure.result.declined, related, queries)
    words: tuple[str, ...] = ()
    if isinstance(failure, NotUnderstood):
        status, words = Status.NOT_UNDERSTOOD, (failure.part,)
    elif isinstance(failure, Refused):
        status = Status.DECLINED
    elif (
        failure.details
    ):  # The query was understood in part, and cannot be carried out.
        status = Status.NOT_UNDERSTOOD
    else:
        raise failure
    return Answer(
        question=question,
        status=status,
        message=failure.full_text,
        not_understood=words,
    )


def _resource_evidence(result: RecordResult, record: Record) -> Iterator[Evidence]:
    """Yield what is cited, as far as the record has it and it was not entered in error."""
    rows = rows_by_reference(result.rows)
    for kind, ids in result.cited.items():
        for resource_id in ids:
            resource = _read(record, kind, resource_id)
            if resource is None or ERROR in all_scalars(resource):
                continue
            reference = f"{kind}/{resource_id}"
            row = rows.get(reference, {})
            text = row_text(row) or clean_name(display_name(resource))
            yield Evidence.of_resource(reference, text, str(row.get("time") or ""))


def _read(record: Record, kind: str, resource_id: str) -> Resource | None:
    try:
        return record.get(kind, resource_id)
    except FhirError:
        return None
