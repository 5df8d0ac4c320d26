"""Answers one question about one patient from the resources and the notes of a record."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from archqa.asking.answer import Answer, Status
from archqa.asking.candidates import PatientMatch
from archqa.asking.clock import Clock, clock, stated_time
from archqa.asking.note import (
    NoteAnswerer,
    OnStep,
    as_question,
    model_pipeline,
    note_destinations,
)
from archqa.asking.patient import find_patient
from archqa.asking.record import answer_record_question, record_pipeline, record_question
from archqa.asking.restated import own_sentences
from archqa.core.case import Case
from archqa.core.usage import sum_usage
from archqa.errors import CaseFailed, InputError, without_suppressed_causes
from archqa.fhir import FhirError, connect
from archqa.llm.model import Model
from archqa.notes.documents import Document, Documents, patient_documents
from archqa.query.everyday import patient_vocabulary
from archqa.runs.backends import SharedLimits
from archqa.runs.destinations import Announce, Announcer, Destination, run_destinations
from archqa.runs.event_loop import run_sync
from archqa.runs.settings_check import check_settings_used
from archqa.safety.arguments import as_text
from archqa.safety.base_urls import check_encrypted, is_server_url
from archqa.safety.whole_characters import whole_text
from archqa.settings import Settings, load_settings

Part = TypeVar("Part")

GIVEN_NOTE = "the given note"
"""The source of sentences of a note that is no document of the record."""

_STATUS_ORDER = (Status.ANSWERED, Status.DECLINED, Status.NOT_UNDERSTOOD, Status.NOT_FOUND)
"""The status of an answer of two parts is the earlier one of theirs."""


class PatientChart(NamedTuple):
    """What is read of a patient before a question is answered."""

    patient: PatientMatch
    clock: Clock
    documents: Documents
    displays: frozenset[str] = frozenset()
    """What the patient's resources are called, in lower case."""


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
    chart = _read_chart(question)
    failures: list[CaseFailed] = []
    record_answer, note_answer, case = None, None, None
    try:
        record_answer = await _ask_record(question, chart)
    except CaseFailed as failure:
        failures.append(failure)
    if chart.documents.readable and _needs_notes(question, record_answer):
        case, sources = _case_from_documents(question.question, chart.documents.readable)
        case = as_question(own_sentences(case, chart.displays))
        try:
            note_answer = await _ask_notes(question, case, sources, chart.documents)
        except CaseFailed as failure:
            failures.append(failure)
    if record_answer is None and note_answer is None:
        raise failures[0]
    answer = _merge(question.question, record_answer, note_answer)
    remarks = [*answer.remarks, *_remarks(chart.documents, failures)]
    if chart.clock.remark:
        remarks.insert(0, chart.clock.remark)
    changes = {"patient": chart.patient.as_json, "remarks": tuple(dict.fromkeys(remarks))}
    return AnsweredChart(answer.model_copy(update=changes), case)


def _case_from_documents(
    question: str, documents: tuple[Document, ...]
) -> tuple[Case, dict[str, str]]:
    """Return one case of all notes, and the document of each sentence id."""
    sentences = []
    source = {}
    for document in documents:
        for sentence in document.sentences():
            paragraph_id = f"{document.name}#{sentence.paragraph_id}"
            sentences.append(sentence.model_copy(update={"paragraph_id": paragraph_id}))
            source[sentence.id] = document.name
    case = Case(
        id="chart",
        patient_narrative=question,
        clinician_question=question,
        sentences=tuple(sentences),
    )
    return case, source


def _needs_notes(question: _ChartQuestion, record_answer: Answer | None) -> bool:
    """Whether the notes may hold what the resources do not; a note that was given is always asked."""
    if record_answer is None or question.note.strip():
        return True
    return record_answer.status in (Status.NOT_FOUND, Status.NOT_UNDERSTOOD)


def _read_chart(question: _ChartQuestion) -> PatientChart:
    allowed = question.settings.allow_plain_http
    with connect(question.record, allow_plain_http=allowed) as record:
        patient = find_patient(record, question.patient)
        now = question.now or stated_time(question.context)
        asked_at = clock(record, patient.id, now, patient=patient.resource)
        try:
            documents = patient_documents(record, patient.id)
            displays = patient_vocabulary(record, patient.id).displays if documents.readable else ()
        except FhirError as error:
            raise InputError(question.record, [f": {error}"]) from None
    if question.note.strip():
        given = Document(GIVEN_NOTE, "", "", question.note)
        documents = documents._replace(readable=(given, *documents.readable))
    return PatientChart(
        patient, asked_at, documents, frozenset(display.casefold() for display in displays)
    )


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


async def _ask_notes(
    question: _ChartQuestion, case: Case, sources: dict[str, str], documents: Documents
) -> Answer:
    """Return the notes' answer; its evidence names the documents."""
    answerer = NoteAnswerer(
        question.settings, question.scripted, question.announce, question.shared
    )
    try:
        answer = await answerer.answer(case, question.on_step)
    finally:
        await answerer.close()
    dates = {document.name: document.date for document in documents.readable}
    evidence = []
    for line in answer.evidence:
        source = sources[line.id]
        evidence.append(line.model_copy(update={"source": source, "date": dates[source]}))
    changes: dict[str, object] = {"evidence": tuple(evidence)}
    if answer.status is Status.NOT_FOUND:
        changes["message"] = _nothing_found(len(documents.readable))
    return answer.model_copy(update=changes)


def _nothing_found(count: int) -> str:
    return (
        "The note does not answer this." if count == 1 else f"None of {count} notes answers this."
    )


def _merge(question: str, record_answer: Answer | None, note_answer: Answer | None) -> Answer:
    """Return one answer of both: the resources' lines first, then the lines of the notes."""
    parts = [part for part in (record_answer, note_answer) if part is not None]
    status = min((part.status for part in parts), key=_STATUS_ORDER.index)
    answering = parts
    if status is Status.ANSWERED:
        answering = [part for part in parts if part.status is Status.ANSWERED]
    performers = dict.fromkeys(part.performer for part in answering)
    return Answer(
        question=question,
        status=status,
        lines=_joined(part.lines for part in answering),
        evidence=_joined(part.evidence for part in answering),
        message=" ".join(part.message for part in answering if part.message),
        query=record_answer.query if record_answer else None,
        not_understood=_joined(part.not_understood for part in answering),
        remarks=(*_silent_record(record_answer, status), *_joined(part.remarks for part in parts)),
        performer=", ".join(filter(None, performers)),
        usage=sum_usage(part.usage for part in parts),
    )


def _joined(parts: Iterable[tuple[Part, ...]]) -> tuple[Part, ...]:
    return tuple(chain.from_iterable(parts))


def _silent_record(record_answer: Answer | None, status: Status) -> Iterator[str]:
    """Yield why the resources do not answer, where the notes do."""
    if record_answer and status is Status.ANSWERED and record_answer.status is not status:
        yield f"The resources do not answer: {record_answer.message}"


def _remarks(documents: Documents, failures: Sequence[CaseFailed]) -> Iterator[str]:
    for failure in failures:
        yield f"A part of the chart gave no answer ({type(failure).__name__})."
    for reason, count in Counter(document.reason for document in documents.unread).items():
        yield f"Documents not read: {count} ({reason})."
