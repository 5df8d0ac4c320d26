"""One question about one patient of a record: its resources and its notes answer together, each with its evidence."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from archqa.ask.note import TASK as NOTE_TASK
from archqa.ask.note import AskResult, EvidenceLine, OnStep, answer_case
from archqa.ask.record import RecordAnswer, answer_record_question, record_pipeline
from archqa.core.answer import Claim
from archqa.core.step import Step
from archqa.errors import CallerError, CaseFailed, InputError, Refused
from archqa.fhir import FhirError, connect
from archqa.llm.model import Model
from archqa.notes.documents import Documents, case_from_documents, patient_documents
from archqa.runs.event_loop import run_sync
from archqa.runs.plan import choose_pipeline
from archqa.runs.settings_check import check_settings_used
from archqa.settings import Settings, load_settings
from archqa.tasks import pipelines
from archqa.tasks.pipeline import Pipeline

_MORE_LIKELY = 0.5


def ask_patient(
    question: str,
    patient: str,
    record: str | Path,
    settings: Settings | None = None,
    *,
    context: str = "",
    on_step: OnStep = lambda _: None,
    scripted: Model | None = None,
) -> AskResult:
    """The answer from a patient's resources and from the notes among them; claims cite either.

    Resources are cited as `Type/id`, sentences of notes as `n1.4`. Where the resources answer nothing, the reason is
    a remark; where the notes answer nothing, likewise. Raises `Refused` if neither answers, `CallerError` for a
    patient the record does not have, `InputError` for what is no record.
    """
    settings = settings or load_settings()
    check_settings_used(settings, *_pipelines(settings))
    notes = _documents(record, patient)
    held = answer_record_question(question, patient, record, settings, context)
    on_step(Step(agent="record_query", mind="embedded", usage=held.usage))
    read = _of_notes(question, notes, settings, on_step, scripted)
    if held.refusal and not read.claims:
        raise Refused(f"The record does not answer this: {held.refusal}")
    return _together(held, read, notes)


def _pipelines(settings: Settings) -> Iterator[Pipeline]:
    """The pipelines that answer: from the resources, and from the notes."""
    yield record_pipeline(settings)
    note_pipelines = {pipeline.name for pipeline in pipelines.for_task(NOTE_TASK)}
    if settings.pipeline is None or settings.pipeline in note_pipelines:
        yield choose_pipeline(settings, NOTE_TASK)


def _documents(record: str | Path, patient: str) -> Documents:
    with connect(record) as opened:
        if opened.get("Patient", patient.removeprefix("Patient/")) is None:
            raise CallerError(
                "The record has no patient of this id.\n`archqa fhir search Patient` lists them."
            )
        try:
            return patient_documents(opened, patient)
        except FhirError as error:
            raise InputError(record, [f": {error}"]) from None


def _of_notes(
    question: str, notes: Documents, settings: Settings, on_step: OnStep, scripted: Model | None
) -> AskResult:
    """What the notes answer; no claims where there are none or the pipeline ends without."""
    if not notes.found:
        return AskResult(question, (), (), "")
    case, sources = case_from_documents(question, notes.found)
    try:
        read = run_sync(answer_case(case, settings, on_step, scripted))
    except CaseFailed as failure:
        return AskResult(
            question,
            (),
            (),
            "",
            (f"The notes do not answer ({type(failure).__name__}).",),
            case=case,
        )
    named = tuple(each.model_copy(update={"source": sources[each.id]}) for each in read.evidence)
    return read._replace(evidence=named)


def _together(held: RecordAnswer, read: AskResult, notes: Documents) -> AskResult:
    resources = () if held.refusal else tuple(_resources(held))
    claims = (
        ()
        if held.refusal
        else (Claim(text=held.answer, citations=tuple(each.id for each in resources)),)
    )
    said = read.claims if held.refusal else _likely(read)
    cited = {each for claim in said for each in claim.citations}
    return read._replace(
        question=held.question,
        claims=(*claims, *said),
        evidence=(*resources, *(each for each in read.evidence if each.id in cited)),
        performer=", ".join(
            filter(None, ("" if held.refusal else "a query of the record", read.performer))
        ),
        remarks=(*_remarks(held, notes), *read.remarks),
        usage=held.usage + read.usage,
        on_record=held,
    )


def _likely(read: AskResult) -> tuple[Claim, ...]:
    """Beside an answer from the resources, only what more likely than not belongs to the answer as well."""
    held = {each.id: each.probability or 0.0 for each in read.evidence}
    return tuple(
        claim
        for claim in read.claims
        if any(held.get(each, 0) >= _MORE_LIKELY for each in claim.citations)
    )


def _remarks(held: RecordAnswer, notes: Documents) -> Iterator[str]:
    if held.refusal:
        yield f"The resources do not answer: {held.refusal}"
    yield from held.warnings
    if notes.unreadable:
        yield f"Documents without plain text, not read: {notes.unreadable}."


def _resources(held: RecordAnswer) -> Iterator[EvidenceLine]:
    told = dict(_told(held.rows))
    for kind, ids in held.citations.items():
        for each in ids:
            name = f"{kind}/{each}"
            yield EvidenceLine(id=name, kind="resource", text=told.get(name, ""), source=kind)


def _told(rows: Any) -> Iterator[tuple[str, str]]:
    """Each resource and its row in words: time, name, value, unit."""
    for row in rows:
        words = (
            str(row.get("time") or "").replace("T", " ")[:16],
            row.get("name"),
            row.get("value"),
            row.get("unit"),
        )
        text = " ".join(str(each) for each in words if each not in (None, ""))
        yield from ((str(reference), text) for reference in row.get("references") or ())
