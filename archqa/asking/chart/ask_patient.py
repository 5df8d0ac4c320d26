"""Answers one question about one patient from the resources and the notes of a record."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from archqa.asking.answer import Answer, Status
from archqa.asking.candidates import PatientMatch
from archqa.asking.chart.chart_answer import chart_answer
from archqa.asking.chart.open_chart import OpenChart
from archqa.asking.chart_agent import CHART_AGENT, ChartToAsk, answer_chart_by_model
from archqa.asking.clock import Clock, clock, stated_time
from archqa.asking.note import OnStep, asks_model
from archqa.asking.patient import find_patient
from archqa.asking.record import (
    answer_record_question,
    conventions_of,
    record_pipeline,
    record_question,
)
from archqa.chart.encoding import encode
from archqa.core.case import Case
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.errors import InputError, without_suppressed_causes
from archqa.fhir import FhirError, Record, connect
from archqa.llm.model import Model
from archqa.notes.documents import Document
from archqa.runs.backends import Backends, SharedLimits
from archqa.runs.destinations import Announce, Announcer, Destination, run_destinations
from archqa.runs.event_loop import run_sync
from archqa.runs.settings_check import check_settings_used
from archqa.safety.arguments import as_text
from archqa.safety.base_urls import check_encrypted, is_server_url
from archqa.safety.whole_characters import whole_text
from archqa.settings import Settings, load_settings

AGENT = "chart_answer"
"""The agent that answers where a model is set up."""

GIVEN_NOTE = "the given note"
"""The source of sentences of a note that is no document of the record."""


class AskedPatient(NamedTuple):
    """The patient who is asked about, and as of when."""

    patient: PatientMatch
    clock: Clock


class AnsweredChart(NamedTuple):
    """An answer, and the case of all notes that were searched; None if there are none."""

    answer: Answer
    case: Case | None


class _ChartQuestion(NamedTuple):
    """A question about a patient, and all that is needed to answer it."""

    question: str
    patient: str
    context: str
    record: str | Path
    settings: Settings
    now: datetime | None
    note: str
    on_step: OnStep
    scripted: Model | None
    announce: Announce
    shared: SharedLimits | None


@without_suppressed_causes
def ask_patient(
    question: str,
    patient: str,
    record: str | Path,
    settings: Settings | None = None,
    *,
    context: str = "",
    now: datetime | None = None,
    note: str = "",
    on_step: OnStep = lambda _: None,
    announce: Announce | None = None,
    scripted: Model | None = None,
) -> Answer:
    """Return the answer from a patient's resources and from the notes among them; lines cite either.

    Resources are cited as `Type/id`, sentences of notes as `Type/id#4`. A given `note` is one
    more note.
    `patient` is a FHIR id, an identifier (MRN) or a name. `now` is the time at which the question is
    asked, by default that of `archqa.asking.clock`; `context` says what else is known. Raises
    `InputError` if `record` is none, `PatientNotFound` or `SeveralPatients` (both `CallerError`),
    `CaseFailed` if a model gives no usable answer, and `ModelError`.
    """
    settings = settings or load_settings()
    check_patient_settings(settings)
    work = answer_patient(
        question,
        patient,
        record,
        settings,
        context=context,
        now=now,
        note=note,
        on_step=on_step,
        announce=announce,
        scripted=scripted,
    )
    return run_sync(work).answer


async def answer_patient(
    question: str,
    patient: str,
    record: str | Path,
    settings: Settings,
    *,
    context: str = "",
    now: datetime | None = None,
    note: str = "",
    on_step: OnStep = lambda _: None,
    announce: Announce | None = None,
    scripted: Model | None = None,
    shared: SharedLimits | None = None,
) -> AnsweredChart:
    """As `ask_patient`, with the case of the notes; settings without effect are not refused."""
    announcer = announce or Announcer()
    destinations = patient_destinations(settings, record)
    if is_server_url(str(record)):
        check_encrypted(str(record), allow_plain_http=settings.allow_plain_http)
        announcer(destinations)
    chart_question = _ChartQuestion(
        question=whole_text(as_text(question, "The question")),
        patient=whole_text(as_text(patient, "The patient")),
        context=whole_text(as_text(context, "The context")),
        record=record,
        settings=settings,
        now=now,
        note=whole_text(as_text(note, "The note")),
        on_step=on_step,
        scripted=scripted,
        announce=lambda _: announcer(destinations),
        shared=shared,
    )
    return await _answer(chart_question)


def check_patient_settings(settings: Settings) -> None:
    """Raise `CallerError` for settings that have no effect on a question about a patient."""
    pipeline = record_pipeline(settings)
    if settings.typed_names:
        check_settings_used(settings, pipeline, CHART_AGENT)


def patient_destinations(settings: Settings, record: str | Path) -> tuple[Destination, ...]:
    """Where a question about a patient of a record sends text and queries."""
    settings = settings.replace(record=str(record))
    of_record = run_destinations(settings, record_pipeline(settings))
    of_notes: tuple[Destination, ...] = ()
    if asks_model(settings, agent=AGENT):
        of_notes = run_destinations(settings.replace(record=None), CHART_AGENT)
    return tuple(dict.fromkeys((*of_record, *of_notes)))


async def _answer(question: _ChartQuestion) -> AnsweredChart:
    allowed = question.settings.allow_plain_http
    with connect(question.record, allow_plain_http=allowed) as record:
        asked, opened = await asyncio.to_thread(_open, question, record)
        if not opened.notes.documents:
            answer = await _ask_record(question, asked)
        elif "pipeline" in question.settings.typed_names:
            record_answer = await _ask_record(question, asked)
            answer = await asyncio.to_thread(_ask_engine, question, opened, record_answer)
        elif asks_model(question.settings, question.scripted, AGENT):
            answer = await _ask_model(question, opened)
        else:
            answer = await asyncio.to_thread(_ask_engine, question, opened)
    remarks = [*answer.remarks, *opened.remarks()]
    if asked.clock.remark:
        remarks.insert(0, asked.clock.remark)
    changes = {"patient": asked.patient.as_json, "remarks": tuple(dict.fromkeys(remarks))}
    return AnsweredChart(answer.model_copy(update=changes), None)


def _open(question: _ChartQuestion, record: Record) -> tuple[AskedPatient, OpenChart]:
    """Return the patient and the chart. Raises `InputError` where it cannot be read."""
    patient = find_patient(record, question.patient)
    now = question.now or stated_time(question.context)
    asked = AskedPatient(patient, clock(record, patient.id, now, patient=patient.resource))
    extra_notes = (Document(GIVEN_NOTE, "", "", question.note),) if question.note.strip() else ()
    conventions = conventions_of(question.settings)
    try:
        chart = OpenChart(
            record,
            patient,
            asked.clock.now,
            extra_notes,
            conventions,
            is_time_stated=now is not None,
        )
    except FhirError as error:
        raise InputError(question.record, [f": {error}"]) from None
    return asked, chart


async def _ask_record(question: _ChartQuestion, asked: AskedPatient) -> Answer:
    """Return the answer of the resources, where there are no notes."""
    now = asked.clock.now
    stated = question.now or stated_time(question.context)
    return await answer_record_question(
        record_question(
            question.question,
            asked.patient.id,
            question.context,
            now,
            is_time_stated=stated is not None,
        ),
        question.record,
        question.settings,
        now=now,
        on_step=question.on_step,
        announce=question.announce,
        shared=question.shared,
    )


def _ask_engine(
    question: _ChartQuestion, opened: OpenChart, record_answer: Answer | None = None
) -> Answer:
    """Return the answer of resources and notes by the engine inside archqa."""
    record_answer = record_answer or opened.ask_record(question.question, question.context)
    has_note = bool(question.note.strip())
    answer = chart_answer(question.question, record_answer, opened, ask_notes=has_note)
    question.on_step(Step(agent="note_search", backend="embedded"))
    return answer


async def _ask_model(question: _ChartQuestion, opened: OpenChart) -> Answer:
    """Return the answer of a model that looks up both.

    What the resources answer whole, and no note speaks of, needs no model.
    """
    record_answer = await asyncio.to_thread(opened.ask_record, question.question, question.context)
    is_whole = record_answer.status is Status.ANSWERED and not question.note.strip()
    if is_whole and not await asyncio.to_thread(opened.is_of_notes, question.question):
        return record_answer
    return await _look_up(question, opened)


async def _look_up(question: _ChartQuestion, opened: OpenChart) -> Answer:
    settings = question.settings.replace(record=None)
    backends = Backends(
        settings, CHART_AGENT, question.scripted, question.shared, question.announce
    )
    usages: list[Usage] = []

    def on_step(step: Step) -> None:
        usages.append(step.usage)
        question.on_step(step)

    chart = ChartToAsk(
        opened.notes,
        opened.queries,
        encode,
        opened.now,
        texts=opened.texts,
        background=question.context,
    )
    performer = ", ".join(dict.fromkeys(backends.describe().values()))
    try:
        answer = await answer_chart_by_model(
            question.question, chart, backends.context(on_step), performer=performer
        )
    finally:
        await backends.close()
    changes = {"remarks": (*answer.remarks, *backends.remarks), "usage": sum_usage(usages)}
    return answer.model_copy(update=changes)
