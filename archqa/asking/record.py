"""Answers one question about one patient of a record with verified citations, without a run folder."""

from datetime import datetime
from pathlib import Path
from typing import Any

from archqa.agents.agent import RunContext
from archqa.core.question import RecordQuestion
from archqa.core.usage import Usage, sum_usage
from archqa.core.value import FrozenModel
from archqa.errors import CaseFailed, Unusable, without_suppressed_causes
from archqa.fhir import Record, connect
from archqa.fhir.connection import checked_location
from archqa.llm.model import Model
from archqa.query import Query, execute
from archqa.query.explanation import explain
from archqa.runs.backends import Backends
from archqa.runs.destinations import Announce
from archqa.runs.event_loop import run_sync
from archqa.runs.settings_check import check_settings_used
from archqa.safety.arguments import as_text
from archqa.safety.whole_characters import whole_text
from archqa.settings import Settings, load_settings
from archqa.tasks import fhir_agentbench, pipelines
from archqa.tasks.fhir_agentbench.result import RecordResult
from archqa.tasks.fhir_agentbench.settings import Conventions, TypedQuerySettings
from archqa.tasks.pipeline import Pipeline, PipelineResult

TASK = fhir_agentbench.NAME

CONVENTIONS: Conventions = "clinical"
"""How questions are interpreted outside a benchmark."""


class CitedClaim(FrozenModel):
    """The text of a row, the resources (`Type/id`) that support it, and their error; empty if none."""

    text: str
    references: tuple[str, ...]
    wrong: str = ""


class RecordAnswer(FrozenModel):
    """An answer from a patient's resources. `refusal` is empty unless there is no answer.

    `sentence` is the query in words; `answer` is for people. `citations` maps types to ids; `verified`
    means that every claim's resources exist and support it. `rows` are the query's, selected ones first.
    """

    question: str
    patient: str
    sentence: str = ""
    answer: str = ""
    query: dict[str, Any] = {}
    rows: tuple[dict[str, Any], ...] = ()
    claims: tuple[CitedClaim, ...] = ()
    citations: dict[str, tuple[str, ...]] = {}
    verified: bool = False
    warnings: tuple[str, ...] = ()
    refusal: str = ""
    usage: Usage = Usage()


@without_suppressed_causes
def ask_record(
    question: str,
    patient: str,
    record: str | Path,
    settings: Settings | None = None,
    *,
    context: str = "",
    scripted: Model | None = None,
) -> RecordAnswer:
    """The answer to a question about a patient (a FHIR id), from a store or a server.

    The planner writes the query if a model is set up, else the parser. Without a `context` that says what
    time it is, the current time is used where it matters. A question that is not understood, or cannot be
    executed, gives a `refusal`. Raises `InputError` if `record` is none, `CallerError`, `ModelError`.
    """
    settings = settings or load_settings()
    check_settings_used(settings, record_pipeline(settings))
    return answer_record_question(question, patient, record, settings, context, scripted)


def answer_record_question(
    question: str,
    patient: str,
    record: str | Path,
    settings: Settings,
    context: str = "",
    scripted: Model | None = None,
    announce: Announce | None = None,
) -> RecordAnswer:
    """As `ask_record`, without a check for settings that have no effect."""
    question = whole_text(as_text(question, "The question"))
    patient = whole_text(as_text(patient, "The patient"))
    context = whole_text(as_text(context, "The context"))
    settings = _settings_for_record(settings, record)
    record_question = RecordQuestion(
        id="asked",
        question=question,
        patient_fhir_id=patient.removeprefix("Patient/"),
        assumption=context,
    )
    return run_sync(_answer(record_question, settings, scripted, announce))


def _settings_for_record(settings: Settings, record: str | Path) -> Settings:
    """The settings for this record; a pipeline that reads notes is replaced by one for records."""
    pipeline = record_pipeline(settings)
    location = checked_location(record)
    settings = settings.replace(record=str(location), pipeline=pipeline.name)
    if "conventions" not in pipeline.settings_type.model_fields:
        return settings
    return settings.replace(conventions=_conventions(settings))


def _conventions(settings: Settings) -> Conventions:
    """The conventions set for the pipeline, else those of clinical use."""
    own = settings.for_pipeline(record_pipeline(settings))
    conventions = own.conventions if isinstance(own, TypedQuerySettings) else None
    return conventions or CONVENTIONS


def record_pipeline(settings: Settings) -> Pipeline:
    """The pipeline that is set, if it reads a record; else the default for questions about a record."""
    for pipeline in pipelines.for_task(TASK):
        if pipeline.name == settings.pipeline and pipeline.prompts:
            return pipeline
    return pipelines.default(TASK, model=settings.has_model)


async def _answer(
    question: RecordQuestion,
    settings: Settings,
    scripted: Model | None,
    announce: Announce | None,
) -> RecordAnswer:
    backends = Backends(settings, record_pipeline(settings), scripted, announce=announce)
    usages: list[Usage] = []
    context = backends.context(lambda step: usages.append(step.usage))
    try:
        outcome = await _run_pipeline(question, context, settings)
        assert isinstance(outcome.result, RecordResult)
        allowed = settings.allow_plain_http
        with connect(str(settings.record), allow_plain_http=allowed) as record:
            answer = _explained_answer(question, outcome.result, settings, record)
    except CaseFailed as failure:
        answer = RecordAnswer(
            question=question.question, patient=question.patient_fhir_id, refusal=failure.full_text
        )
    finally:
        await backends.close()
    warnings = (*answer.warnings, *backends.remarks)
    return answer.model_copy(update={"usage": sum_usage(usages), "warnings": warnings})


async def _run_pipeline(
    question: RecordQuestion, context: RunContext, settings: Settings
) -> PipelineResult:
    """Run the pipeline. The parser gets the time only where its query needs it.

    The time would otherwise stand in every sentence of the answer.
    """
    pipeline = record_pipeline(settings)
    own_settings = settings.for_pipeline(pipeline)
    timed_question = question
    if not question.assumption:
        now = f"Assume the current time is {datetime.now():%Y-%m-%d %H:%M:%S}."
        timed_question = question.model_copy(update={"assumption": now})
    if pipeline.backend == "model" or question.assumption:
        return await pipeline.run(timed_question, context, own_settings)
    try:
        return await pipeline.run(question, context, own_settings)
    except Unusable:
        return await pipeline.run(timed_question, context, own_settings)


def _explained_answer(
    question: RecordQuestion, result: RecordResult, settings: Settings, record: Record
) -> RecordAnswer:
    """The answer in words. Without a typed query it is the agent's own, with unverified citations."""
    answer = RecordAnswer(
        question=question.question,
        patient=question.patient_fhir_id,
        answer=result.answer or "",
        citations=result.cited,
        rows=result.rows,
        warnings=result.warnings,
    )
    if not result.query:
        return answer
    query = Query.model_validate(result.query)
    result_rows = execute(query, record, question.patient_fhir_id, _conventions(settings))
    explanation = explain(result_rows, record)
    claims = [
        CitedClaim(text=claim.text, references=claim.refs, wrong=claim.wrong)
        for claim in explanation.claims
    ]
    return answer.model_copy(
        update={
            "sentence": query.sentence,
            "answer": explanation.sentence,
            "query": result.query,
            "claims": tuple(claims),
            "verified": explanation.verified,
        }
    )
