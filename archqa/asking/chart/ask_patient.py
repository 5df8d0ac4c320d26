"""Answers one question about one patient from the resources and the notes of a record."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from archqa.asking.answer import Answer
from archqa.asking.candidates import PatientMatch
from archqa.asking.chart.chart_answer import chart_answer
from archqa.asking.chart.open_chart import OpenChart
from archqa.asking.clock import Clock, clock, stated_time
from archqa.asking.note import (
    OnStep,
    model_pipeline,
    note_destinations,
)
from archqa.asking.patient import find_patient
from archqa.asking.record import answer_record_question, record_pipeline, record_question
from archqa.core.case import Case
from archqa.core.step import Step
from archqa.errors import CaseFailed, InputError, without_suppressed_causes
from archqa.fhir import FhirError, connect
from archqa.llm.model import Model
from archqa.notes.documents import Document
from archqa.runs.backends import SharedLimits
from archqa.runs.destinations import Announce, Announcer, Destination, run_destinations
from archqa.runs.event_loop import run_sync
from archqa.runs.settings_check import check_settings_used
from archqa.safety.arguments import as_text
from archqa.safety.base_urls import check_encrypted, is_server_url
from archqa.safety.whole_characters import whole_text
from archqa.settings import Settings, load_settings

GIVEN_NOTE = "the given note"
"""The source of sentences of a note that is no document of the record."""


class PatientChart(NamedTuple):
    """The patient who was found, and the time of the question."""

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

    Resources are cited as `Type/id`, sentences of notes as `n1.4`. A given `note` is one more note.
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
        check_settings_used(settings, pipeline, model_pipeline())


def patient_destinations(settings: Settings, record: str | Path) -> tuple[Destination, ...]:
    """Where a question about a patient of a record sends text and queries."""
    settings = settings.replace(record=str(record))
    of_record = run_destinations(settings, record_pipeline(settings))
    return tuple(dict.fromkeys((*of_record, *note_destinations(settings))))


async def _answer(question: _ChartQuestion) -> AnsweredChart:
    chart = await asyncio.to_thread(_find_patient, question)
    record_answer, failure = None, None
    try:
        record_answer = await _ask_record(question, chart)
    except CaseFailed as error:
        failure = error
    answer = await asyncio.to_thread(_answer_of_both, question, chart, record_answer)
    if answer is None:
        assert failure is not None
        raise failure
    remarks = [*answer.remarks, *_remarks(failure)]
    if chart.clock.remark:
        remarks.insert(0, chart.clock.remark)
    changes = {"patient": chart.patient.as_json, "remarks": tuple(dict.fromkeys(remarks))}
    return AnsweredChart(answer.model_copy(update=changes), None)


def _find_patient(question: _ChartQuestion) -> PatientChart:
    allowed = question.settings.allow_plain_http
    with connect(question.record, allow_plain_http=allowed) as record:
        patient = find_patient(record, question.patient)
        now = question.now or stated_time(question.context)
        return PatientChart(patient, clock(record, patient.id, now, patient=patient.resource))


async def _ask_record(question: _ChartQuestion, chart: PatientChart) -> Answer:
    now = chart.clock.now
    return await answer_record_question(
        record_question(question.question, chart.patient.id, question.context, now),
        question.record,
        question.settings,
        now=now,
        on_step=question.on_step,
        announce=question.announce,
        shared=question.shared,
    )


def _answer_of_both(
    question: _ChartQuestion, chart: PatientChart, record_answer: Answer | None
) -> Answer | None:
    """Return the answer of resources and notes; None if there are no notes and the other failed."""
    given = (Document(GIVEN_NOTE, "", "", question.note),) if question.note.strip() else ()
    allowed = question.settings.allow_plain_http
    with connect(question.record, allow_plain_http=allowed) as record:
        try:
            opened = OpenChart(record, chart.patient, chart.clock.now, given)
        except FhirError as error:
            raise InputError(question.record, [f": {error}"]) from None
        answer = record_answer
        if opened.notes.documents:
            answer = chart_answer(question.question, record_answer, opened, ask_notes=bool(given))
            question.on_step(Step(agent="note_search", backend="embedded"))
        if answer is None:
            return None
        remarks = (*answer.remarks, *opened.remarks())
        return answer.model_copy(update={"remarks": remarks})


def _remarks(failure: CaseFailed | None) -> Iterator[str]:
    if failure is not None:
        yield f"A part of the chart gave no answer ({type(failure).__name__})."
