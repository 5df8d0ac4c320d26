"""Answers one question about one patient from the resources of a record, each claim verified."""

import asyncio
from datetime import datetime
from pathlib import Path

from archqa.agents.agent import RunContext
from archqa.agents.judgement_kinds import is_limit_of_language
from archqa.agents.planner import MOST_QUERIES
from archqa.asking.answer import Answer, Status
from archqa.asking.clock import clock, stated_time
from archqa.asking.note import OnStep
from archqa.asking.patient import find_patient
from archqa.asking.record_grammar import PatientQueries, answer_by_grammar
from archqa.asking.record_pipeline import pipeline_answer
from archqa.core.question import RecordQuestion
from archqa.core.step import Step
from archqa.core.usage import sum_usage
from archqa.errors import CaseFailed, without_suppressed_causes
from archqa.fhir import Record, connect
from archqa.fhir.connection import checked_location
from archqa.llm.model import Model
from archqa.runs.backends import Backends, SharedLimits
from archqa.runs.destinations import Announce
from archqa.runs.event_loop import run_sync
from archqa.runs.settings_check import check_settings_used
from archqa.safety.arguments import as_text
from archqa.safety.whole_characters import whole_text
from archqa.settings import Settings, load_settings
from archqa.tasks import fhir_agentbench, pipelines
from archqa.tasks.fhir_agentbench.result import RecordResult
from archqa.tasks.fhir_agentbench.settings import Conventions, TypedQuerySettings
from archqa.tasks.pipeline import Pipeline

TASK = fhir_agentbench.NAME

CONVENTIONS: Conventions = "clinical"
"""How questions are interpreted outside a benchmark."""


@without_suppressed_causes
def ask_record(
    question: str,
    patient: str,
    record: str | Path,
    settings: Settings | None = None,
    *,
    context: str = "",
    now: datetime | None = None,
    scripted: Model | None = None,
) -> Answer:
    """Return the answer to a question about a patient, from a store or a server.

    The everyday grammar writes the queries, and the planner of a model what it cannot read. `patient` is a FHIR id, an
    identifier or a name; `now` is by default the time of `archqa.asking.clock`; `context` says what
    else is known. Raises `InputError` if `record` is none, `CallerError`, `CaseFailed` and
    `ModelError`.
    """
    settings = settings or load_settings()
    check_settings_used(settings, record_pipeline(settings))
    asked = record_question(question, patient, context)
    with connect(record, allow_plain_http=settings.allow_plain_http) as opened:
        match = find_patient(opened, asked.patient_fhir_id)
        stated = now or stated_time(context)
        asked_at = clock(opened, match.id, stated, patient=match.resource)
    asked = record_question(
        question, match.id, context, asked_at.now, is_time_stated=stated is not None
    )
    work = answer_record_question(asked, record, settings, now=asked_at.now, scripted=scripted)
    answer = run_sync(work)
    remarks = (*filter(None, [asked_at.remark]), *answer.remarks)
    return answer.model_copy(update={"patient": match.as_json, "remarks": remarks})


def record_question(
    question: str,
    patient: str,
    context: str = "",
    now: datetime | None = None,
    *,
    is_time_stated: bool = False,
) -> RecordQuestion:
    """Return the question about a patient, at a time that was stated or is the present.

    Raises `CallerError` for what is no text.
    """
    question = whole_text(as_text(question, "The question"))
    patient = whole_text(as_text(patient, "The patient"))
    context = whole_text(as_text(context, "The context"))
    if context and now is not None and stated_time(context) is None:
        context = f"{context.rstrip('. ')}. {_time_sentence(now)}"
    return RecordQuestion(
        id="asked",
        question=question,
        patient_fhir_id=patient.removeprefix("Patient/"),
        assumption=context,
        is_time_stated=is_time_stated,
    )


async def answer_record_question(
    question: RecordQuestion,
    record: str | Path,
    settings: Settings,
    *,
    now: datetime,
    on_step: OnStep = lambda _: None,
    scripted: Model | None = None,
    announce: Announce | None = None,
    shared: SharedLimits | None = None,
) -> Answer:
    """As `ask_record`, without a check for settings that have no effect."""
    settings = _settings_for_record(settings, record)
    backends = Backends(settings, record_pipeline(settings), scripted, shared, announce)
    steps: list[Step] = []
    context = backends.context(steps.append)
    try:
        answer = await _answer(question, context, settings, now)
    finally:
        await backends.close()
    usage = sum_usage(step.usage for step in steps)
    on_step(Step(agent="record_query", backend="embedded", usage=usage))
    remarks = (*answer.remarks, *backends.remarks)
    return answer.model_copy(update={"usage": usage, "remarks": remarks})


def _settings_for_record(settings: Settings, record: str | Path) -> Settings:
    """The settings for this record, with the conventions of clinical use unless others are set."""
    pipeline = record_pipeline(settings)
    location = checked_location(record)
    settings = settings.replace(record=str(location), pipeline=pipeline.name)
    if "conventions" not in pipeline.settings_type.model_fields:
        return settings
    return settings.replace(conventions=conventions_of(settings), most_queries=MOST_QUERIES)


def conventions_of(settings: Settings) -> Conventions:
    """The conventions set for the pipeline, else those of clinical use."""
    own = settings.for_pipeline(record_pipeline(settings))
    conventions = own.conventions if isinstance(own, TypedQuerySettings) else None
    return conventions or CONVENTIONS


def record_pipeline(settings: Settings) -> Pipeline:
    """The pipeline that is set, if it reads a record; else the default for questions about a record.

    Raises `CallerError` for one that was typed and does not read a record.
    """
    for pipeline in pipelines.for_task(TASK):
        if pipeline.name == settings.pipeline and pipeline.prompts:
            return pipeline
    if settings.pipeline and "pipeline" in settings.typed_names:
        return pipelines.find(settings.pipeline, TASK)
    return pipelines.default(TASK, model=settings.prefers_model_pipeline)


async def _answer(
    question: RecordQuestion, context: RunContext, settings: Settings, now: datetime
) -> Answer:
    """By the grammar what it reads whole; the rest by the pipeline, where a model is set up."""
    answer = await asyncio.to_thread(_grammar_answer, question, settings, now)
    if not settings.prefers_model_pipeline or not _is_beyond_the_grammar(answer):
        return answer
    outcome: RecordResult | CaseFailed
    try:
        outcome = await _run_pipeline(question, context, settings, now)
    except CaseFailed as failure:
        outcome = failure
    return await asyncio.to_thread(_pipeline_answer, question, outcome, settings, now)


def _is_beyond_the_grammar(answer: Answer) -> bool:
    """Whether a planner may do better: words were not read, or its queries have no such limit."""
    if answer.status is Status.DECLINED:
        return is_limit_of_language(answer.message)
    return answer.status is Status.NOT_UNDERSTOOD


def _grammar_answer(question: RecordQuestion, settings: Settings, now: datetime) -> Answer:
    with connect(str(settings.record), allow_plain_http=settings.allow_plain_http) as record:
        return answer_by_grammar(question, now, _queries(question, record, settings, now))


def _pipeline_answer(
    question: RecordQuestion, outcome: RecordResult | CaseFailed, settings: Settings, now: datetime
) -> Answer:
    with connect(str(settings.record), allow_plain_http=settings.allow_plain_http) as record:
        return pipeline_answer(question, outcome, _queries(question, record, settings, now))


def _queries(
    question: RecordQuestion, record: Record, settings: Settings, now: datetime
) -> PatientQueries:
    return PatientQueries(
        record,
        question.patient_fhir_id,
        now,
        conventions_of(settings),
        is_time_stated=question.is_time_stated,
    )


async def _run_pipeline(
    question: RecordQuestion, context: RunContext, settings: Settings, now: datetime
) -> RecordResult:
    """Run the pipeline on the question, with its time."""
    if not question.assumption:
        question = question.model_copy(update={"assumption": _time_sentence(now)})
    pipeline = record_pipeline(settings)
    outcome = await pipeline.run(question, context, settings.for_pipeline(pipeline))
    assert isinstance(outcome.result, RecordResult)
    return outcome.result


def _time_sentence(now: datetime) -> str:
    return f"Assume the current time is {now:%Y-%m-%d %H:%M:%S}."
