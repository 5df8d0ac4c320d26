"""Answers one question about one patient from the resources and the notes of a record, with evidence."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from archqa.asking.note import TASK as NOTE_TASK
from archqa.asking.note import AskResult, EvidenceLine, OnStep, answer_case
from archqa.asking.record import RecordAnswer, answer_record_question, record_pipeline
from archqa.core.answer import Claim
from archqa.core.step import Step
from archqa.errors import (
    CallerError,
    CaseFailed,
    InputError,
    Refused,
    without_suppressed_causes,
)
from archqa.fhir import FhirError, connect
from archqa.llm.model import Model
from archqa.notes.documents import Documents, case_from_documents, patient_documents
from archqa.runs.destinations import (
    Announce,
    Announcer,
    Destination,
    run_destinations,
)
from archqa.runs.event_loop import run_sync
from archqa.runs.plan import choose_pipeline
from archqa.runs.settings_check import check_settings_used
from archqa.safety.arguments import as_text
from archqa.safety.base_urls import check_encrypted, is_server_url
from archqa.settings import Settings, load_settings
from archqa.tasks import pipelines
from archqa.tasks.pipeline import Pipeline

_MIN_PROBABILITY = 0.5
"""Of a sentence of the notes that is added to an answer from the resources."""


@without_suppressed_causes
def ask_patient(
    question: str,
    patient: str,
    record: str | Path,
    settings: Settings | None = None,
    *,
    context: str = "",
    on_step: OnStep = lambda _: None,
    announce: Announce | None = None,
    scripted: Model | None = None,
) -> AskResult:
    """The answer from a patient's resources and from the notes among them; claims cite either.

    Resources are cited as `Type/id`, sentences of notes as `n1.4`. If the resources or the notes give no
    answer, a remark says why. Raises `Refused` if neither answers, `CallerError` for a patient that the
    record does not have, `InputError` if `record` is none.
    """
    settings = settings or load_settings()
    check_settings_used(settings, *_pipelines(settings))
    destinations = patient_destinations(settings, record)
    announce = announce or Announcer()

    def announce_all(_: object) -> None:
        announce(destinations)

    if is_server_url(str(record)):
        check_encrypted(str(record), allow_plain_http=settings.allow_plain_http)
        announce(destinations)
    notes = _documents(record, as_text(patient, "The patient"), settings)
    record_answer = answer_record_question(
        question, patient, record, settings, context, announce=announce_all
    )
    on_step(Step(agent="record_query", backend="embedded", usage=record_answer.usage))
    note_answer = _ask_notes(question, notes, settings, on_step, scripted, announce_all)
    if record_answer.refusal and not note_answer.claims:
        explanation = f"The record does not answer this: {record_answer.refusal}"
        raise Refused("The record does not answer this.", explanation)
    return _merge(record_answer, note_answer, notes)


def patient_destinations(settings: Settings, record: str | Path) -> tuple[Destination, ...]:
    """Where a question about a patient of a record sends text and queries."""
    settings = settings.replace(record=str(record))
    destinations: dict[Destination, None] = {}
    for pipeline in _pipelines(settings):
        destinations.update(dict.fromkeys(run_destinations(settings, pipeline)))
    return tuple(destinations)


def _pipelines(settings: Settings) -> Iterator[Pipeline]:
    """The pipelines that answer: from the resources, and from the notes."""
    yield record_pipeline(settings)
    note_pipelines = {pipeline.name for pipeline in pipelines.for_task(NOTE_TASK)}
    if settings.pipeline is None or settings.pipeline in note_pipelines:
        yield choose_pipeline(settings, NOTE_TASK)


def _documents(record: str | Path, patient: str, settings: Settings) -> Documents:
    with connect(record, allow_plain_http=settings.allow_plain_http) as store:
        if store.get("Patient", patient.removeprefix("Patient/")) is None:
            raise CallerError(
                "The record has no patient of this id.\n`archqa fhir search Patient` lists them."
            )
        try:
            return patient_documents(store, patient)
        except FhirError as error:
            raise InputError(record, [f": {error}"]) from None


def _ask_notes(
    question: str,
    notes: Documents,
    settings: Settings,
    on_step: OnStep,
    scripted: Model | None,
    announce: Announce,
) -> AskResult:
    """The notes' answer; no claims if there are no notes or the pipeline fails."""
    if not notes.readable:
        return AskResult(question, (), (), "")
    case, sources = case_from_documents(question, notes.readable)
    try:
        answer = run_sync(answer_case(case, settings, on_step, scripted, announce))
    except CaseFailed as failure:
        remark = f"The notes do not answer ({type(failure).__name__})."
        return AskResult(question, (), (), "", (remark,), case=case)
    evidence = []
    for line in answer.evidence:
        source = sources[line.id]
        evidence.append(line.model_copy(update={"source": source}))
    return answer._replace(evidence=tuple(evidence))


def _merge(record_answer: RecordAnswer, note_answer: AskResult, notes: Documents) -> AskResult:
    """One answer of both: the resources' claim first, then the claims of the notes."""
    if record_answer.refusal:
        performers = [note_answer.performer]
        record_claims: tuple[Claim, ...] = ()
        resources: tuple[EvidenceLine, ...] = ()
        note_claims = note_answer.claims
    else:
        performers = ["a query of the record", note_answer.performer]
        resources = tuple(_resource_evidence(record_answer))
        citations = tuple(resource.id for resource in resources)
        record_claims = (Claim(text=record_answer.answer, citations=citations),)
        note_claims = _likely_claims(note_answer)
    cited: set[str] = set()
    for claim in note_claims:
        cited.update(claim.citations)
    sentences = [line for line in note_answer.evidence if line.id in cited]
    return note_answer._replace(
        question=record_answer.question,
        claims=(*record_claims, *note_claims),
        evidence=(*resources, *sentences),
        performer=", ".join(filter(None, performers)),
        remarks=tuple(dict.fromkeys((*_remarks(record_answer, notes), *note_answer.remarks))),
        usage=record_answer.usage + note_answer.usage,
        on_record=record_answer,
    )


def _likely_claims(answer: AskResult) -> tuple[Claim, ...]:
    """The claims with a citation that is more likely than not essential."""
    likely_ids = set()
    for line in answer.evidence:
        probability = line.probability or 0.0
        if probability >= _MIN_PROBABILITY:
            likely_ids.add(line.id)
    return tuple(claim for claim in answer.claims if likely_ids.intersection(claim.citations))


def _remarks(answer: RecordAnswer, notes: Documents) -> Iterator[str]:
    if answer.refusal:
        yield f"The resources do not answer: {answer.refusal}"
    yield from answer.warnings
    if notes.unreadable:
        yield f"Documents without plain text, not read: {notes.unreadable}."


def _resource_evidence(answer: RecordAnswer) -> Iterator[EvidenceLine]:
    texts = _row_texts(answer.rows)
    for kind, ids in answer.citations.items():
        for resource_id in ids:
            reference = f"{kind}/{resource_id}"
            text = texts.get(reference, "")
            yield EvidenceLine(id=reference, kind="resource", text=text, source=kind)


def _row_texts(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Each resource's row in words: time, name, value, unit."""
    texts = {}
    for row in rows:
        text = _row_text(row)
        for reference in row.get("references") or ():
            texts[str(reference)] = text
    return texts


def _row_text(row: Mapping[str, Any]) -> str:
    time = str(row.get("time") or "").replace("T", " ")
    minutes = time[: len("2026-01-31 12:00")]
    fields = (minutes, row.get("name"), row.get("value"), row.get("unit"))
    return " ".join(str(field) for field in fields if field not in (None, ""))
