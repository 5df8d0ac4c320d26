"""One question about one patient of a record, answered on the spot with verified citations; no run folder."""

from datetime import datetime
from pathlib import Path
from typing import Any

from archqa.agents.agent import RunContext
from archqa.core.question import RecordQuestion
from archqa.core.usage import Usage, sum_usage
from archqa.core.value import FrozenModel
from archqa.errors import CaseFailed, Unusable
from archqa.fhir import Record, connect
from archqa.llm.model import Model
from archqa.query import Query, execute
from archqa.query.explanation import explain
from archqa.runs.backends import Backends
from archqa.runs.event_loop import run_sync
from archqa.runs.settings_check import check_settings_used
from archqa.settings import Settings, load_settings
from archqa.tasks import fhir_agentbench, pipelines
from archqa.tasks.fhir_agentbench.result import RecordResult
from archqa.tasks.fhir_agentbench.settings import Conventions, TypedQuerySettings
from archqa.tasks.pipeline import Pipeline, PipelineResult

TASK = fhir_agentbench.NAME

CONVENTIONS: Conventions = "clinical"
"""What words mean where nothing says that a benchmark asks."""


class CitedClaim(FrozenModel):
    """What one row says, the resources (`Type/id`) that hold it, and what is wrong with them; empty if nothing."""

    text: str
    references: tuple[str, ...]
    wrong: str = ""


class RecordAnswer(FrozenModel):
    """An answer from a patient's resources. `refusal` is empty unless nothing could be answered.

    `sentence` is the query in words; `answer` is for people. `citations` maps types to ids; `verified` says that every
    claim's resources exist and hold it. `rows` are those the query found, the chosen ones first.
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

    The planner translates it if a model is set up, else the parser. Without a `context` that says what time it is, it
    is now, where that matters. A question that is not understood, or cannot be carried out, is a `refusal`. Raises
    `InputError` for what is no record, `CallerError`, `ModelError`.
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
) -> RecordAnswer:
    """As `ask_record`, without a check for settings that have no effect."""
    settings = _for_one(settings, record)
    named = patient.removeprefix("Patient/")
    asked = RecordQuestion(id="asked", question=question, patient_fhir_id=named, assumption=context)
    return run_sync(_answer(asked, settings, scripted))


def _for_one(settings: Settings, record: str | Path) -> Settings:
    """The settings for this record; a pipeline that reads notes was not meant for it."""
    pipeline = record_pipeline(settings)
    settings = settings.replace(record=str(record), pipeline=pipeline.name)
    if "conventions" not in pipeline.settings_type.model_fields:
        return settings
    return settings.replace(conventions=_conventions(settings))


def _conventions(settings: Settings) -> Conventions:
    """What words mean: as set for the pipeline, else as in clinical use."""
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
    asked: RecordQuestion, settings: Settings, scripted: Model | None
) -> RecordAnswer:
    minds = Backends(settings, record_pipeline(settings), scripted)
    usages: list[Usage] = []
    desk = minds.context(lambda step: usages.append(step.usage))
    try:
        ending = await _ended(asked, desk, settings)
        with connect(str(settings.record)) as record:
            assert isinstance(ending.result, RecordResult)
            found = _told(asked, ending.result, settings, record)
    except CaseFailed as failure:
        found = RecordAnswer(
            question=asked.question, patient=asked.patient_fhir_id, refusal=str(failure)
        )
    finally:
        await minds.close()
    return found.model_copy(update={"usage": sum_usage(usages)})


async def _ended(asked: RecordQuestion, desk: RunContext, settings: Settings) -> PipelineResult:
    """The parser is told the time only where its query cannot do without: it would stand in every sentence."""
    pipeline = record_pipeline(settings)
    now = f"Assume the current time is {datetime.now():%Y-%m-%d %H:%M:%S}."
    timed = asked if asked.assumption else asked.model_copy(update={"assumption": now})
    if pipeline.mind == "model" or asked.assumption:
        return await pipeline.run(timed, desk, settings.for_pipeline(pipeline))
    try:
        return await pipeline.run(asked, desk, settings.for_pipeline(pipeline))
    except Unusable:
        return await pipeline.run(timed, desk, settings.for_pipeline(pipeline))


def _told(
    asked: RecordQuestion, result: RecordResult, settings: Settings, record: Record
) -> RecordAnswer:
    """The answer in words. An agent without a typed query says it itself; its citations were only looked up."""
    plain = RecordAnswer(
        question=asked.question,
        patient=asked.patient_fhir_id,
        answer=result.answer or "",
        citations=result.cited,
        rows=result.rows,
        warnings=result.warnings,
    )
    if not result.query:
        return plain
    query = Query.model_validate(result.query)
    said = explain(execute(query, record, asked.patient_fhir_id, _conventions(settings)), record)
    claims = tuple(
        CitedClaim(text=each.text, references=each.refs, wrong=each.wrong) for each in said.claims
    )
    words = {"sentence": query.sentence, "answer": said.sentence, "query": result.query}
    return plain.model_copy(update={**words, "claims": claims, "verified": said.verified})
