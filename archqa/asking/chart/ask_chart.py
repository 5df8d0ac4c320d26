"""Answers one question about one patient from the resources and the notes of a record."""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from archqa.asking.answer import Answer, AnsweredQuestion, Status
from archqa.asking.clock import clock, stated_time
from archqa.asking.patient import PatientMatch, find_patient
from archqa.asking.question import ModelBackends, Question, asks_model
from archqa.asking.record import PatientQueries, answer_by_grammar, conventions_of
from archqa.core.step import Step
from archqa.fhir import Record, Store, connect
from archqa.fhir.connection import checked_location, tolerate_refusals
from archqa.fhir.record import PartialRecord
from archqa.notes import DOCUMENT_TYPES
from archqa.query.questions.everyday import PatientVocabulary, patient_vocabulary
from archqa.query.wording.words import listed
from archqa.runs.destinations import Announcer, Destination
from archqa.safety.server_urls import check_encrypted, is_server_url
from archqa.settings import Settings


@dataclass
class PatientChart:
    """The resources of a patient, as of the time of a question; read by one thread at a time.

    `time_remark` says at what time the question was asked, if that was not the present.
    """

    patient: PatientMatch
    queries: PatientQueries
    time_remark: str = ""

    @property
    def record(self) -> Record:
        """The record of the patient."""
        return self.queries.record

    @property
    def now(self) -> datetime:
        """The time of the question."""
        return self.queries.now

    @cached_property
    def vocabulary(self) -> PatientVocabulary:
        """The names in the record of this patient."""
        return patient_vocabulary(self.record, self.patient.id)


def open_patient_chart(question: Question, record: Record) -> PatientChart:
    """Return the chart of the patient whom a question names, at its time.

    Raises `PatientNotFound`, `SeveralPatients`, and as the record does.
    """
    patient = find_patient(record, question.patient or "")
    stated = question.options.now or stated_time(question.options.context)
    asked_at = clock(record, patient.id, stated, patient=patient.resource)
    queries = PatientQueries(
        record,
        patient.id,
        asked_at.now,
        conventions_of(question.settings),
        is_time_stated=stated is not None,
    )
    return PatientChart(patient, queries, asked_at.remark)


AGENT = "chart_answer"
"""The agent that answers where a model is set up."""

GIVEN_NOTE = "the given note"
"""The source of sentences of a note that is no document of the record."""


async def answer_from_chart(
    question: Question, models: ModelBackends
) -> AnsweredQuestion:
    """Return the answer from a patient's resources and from the notes among them.

    A note that is given is one more of them. Raises `CallerError` if it has no word, `InputError`
    if the record is none, `PatientNotFound` or `SeveralPatients`, `CaseFailed` if a model gives no usable answer, and
    `ModelError`.
    """
    if question.note is not None:
        from archqa.notes.sentences import split_note  # Slow to import.

        split_note(question.note)  # Raises for a note without a word.
    location = checked_location(question.options.record)
    if is_server_url(str(location)):
        destinations = chart_destinations(question.settings, location)
        check_encrypted(
            str(location), allow_plain_http=question.settings.allow_plain_http
        )
        announce = question.options.announce or Announcer()
        announce(destinations)
    with connect(
        location, allow_plain_http=question.settings.allow_plain_http
    ) as connected:
        opened = tolerate_refusals(connected)
        chart = await asyncio.to_thread(open_patient_chart, question, opened)
        if await asyncio.to_thread(_has_documents, question, chart):
            # What searches notes is slow to import.
            from archqa.asking.chart.chart_answer import answer_with_notes

            answer = await answer_with_notes(question, chart, models)
        else:
            answer = await answer_from_resources(question, chart, models)
            remarks = dict.fromkeys(filter(None, [chart.time_remark, *answer.remarks]))
            answer = answer.model_copy(update={"remarks": tuple(remarks)})
    if isinstance(opened, PartialRecord):
        opened.check_any_type_read()
    return AnsweredQuestion(_with_gaps(answer, chart))


def _with_gaps(answer: Answer, chart: PatientChart) -> Answer:
    """Return the answer with the types that the server refused: an absence is none of those."""
    resources = chart.queries.chart
    gaps = dict.fromkeys((*resources.gaps(), *resources.gaps(DOCUMENT_TYPES)))
    remarks = dict.fromkeys([*answer.remarks, *(gap.remark for gap in gaps)])
    message = answer.message
    if answer.status is Status.NOT_FOUND:
        reasons = [gap.reason for gap in gaps if gap.reason not in message]
        if reasons:
            message = f"{message} Not searched: {listed(reasons)}."
    changes = {
        "patient": chart.patient.as_json,
        "remarks": tuple(remarks),
        "message": message,
    }
    return answer.model_copy(update=changes)


async def answer_from_resources(
    question: Question, chart: PatientChart, models: ModelBackends
) -> Answer:
    """Return what the resources answer: by the grammar, or by a model that sees every question."""
    if question.settings.prefers_model_pipeline:
        from archqa.asking.proposed_reading import answer_with_model

        return await answer_with_model(question, chart.queries, models)
    context = question.options.context
    answer = await asyncio.to_thread(
        answer_by_grammar, question.text, chart.queries, context
    )
    question.options.on_step(Step(agent="record_query", backend="embedded"))
    return answer


def _has_documents(question: Question, chart: PatientChart) -> bool:
    """Whether there may be notes: one is given, or the record may have documents of the patient."""
    if question.note is not None:
        return True
    if not isinstance(chart.record, Store):
        return True  # Counting asks a server as much as reading.
    counts = chart.record.counts(chart.patient.id)
    return any(counts.get(name) for name in DOCUMENT_TYPES)


def check_chart_settings(settings: Settings) -> None:
    """Raise `CallerError` for settings that have no effect on a question about a patient.

    Also where a pipeline was typed that needs a model, and no server was asked for.
    """
    from archqa.asking.chart_agent import CHART_AGENT
    from archqa.asking.proposed_reading import READING_CHECK, check_grammar_setting
    from archqa.asking.record_model import record_pipeline
    from archqa.runs.model_server import check_server_asked_for
    from archqa.runs.settings_check import check_settings_used

    pipeline = record_pipeline(settings)
    check_settings_used(settings, pipeline, CHART_AGENT, READING_CHECK)
    check_grammar_setting(settings)
    if "pipeline" in settings.typed_names:
        check_server_asked_for(settings, pipeline)


def chart_destinations(
    settings: Settings, record: str | Path
) -> tuple[Destination, ...]:
    """Where a question about a patient of a record sends text and queries."""
    is_local = not is_server_url(str(record))
    asks_agent = asks_model(settings, AGENT)
    if is_local and not settings.prefers_model_pipeline and not asks_agent:
        return ()
    from archqa.asking.chart_agent import CHART_AGENT
    from archqa.asking.proposed_reading import READING_CHECK, grammar_use
    from archqa.asking.record_model import record_pipeline
    from archqa.runs.destinations import run_destinations

    settings = settings.replace(record=str(record))
    destinations = [*run_destinations(settings, record_pipeline(settings))]
    if grammar_use(settings) == "propose":
        destinations += run_destinations(settings.replace(record=None), READING_CHECK)
    if asks_agent:
        destinations += run_destinations(settings.replace(record=None), CHART_AGENT)
    return tuple(dict.fromkeys(destinations))
