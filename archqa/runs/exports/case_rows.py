"""A run as JSON Lines: one row a case, as `datasets.load_dataset("json")` and pandas read them.

Every row has the same keys, so that a column has one type.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from archqa.core.case import Case
from archqa.core.question import ClinicalTask, RecordQuestion
from archqa.core.value import FrozenModel
from archqa.runs.record import CaseRecord
from archqa.runs.run import Run

CaseScores = Mapping[str, Mapping[str, float]]
"""Case id and metric to a score."""


class RowLine(FrozenModel):
    """One line of an answer, and the ids it cites."""

    text: str
    citations: tuple[str, ...]


class RowEvidence(FrozenModel):
    """A sentence or resource that the answer cites; no text where the run did not keep it."""

    id: str
    text: str | None


class CaseRow(FrozenModel):
    """One case: what was asked, and all that the answer rests on."""

    id: str
    task: str
    pipeline: str
    models: tuple[str, ...]
    question: str
    patient: str | None
    status: str
    answer: str | None
    lines: tuple[RowLine, ...]
    citations: tuple[str, ...]
    evidence: tuple[RowEvidence, ...]
    error: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    seconds: float
    scores: dict[str, float | None] | None


def case_rows(run: Run, scores: CaseScores) -> Iterator[CaseRow]:
    """Yield a row for every case that ended, in the order of the case file."""
    manifest = run.manifest
    models = tuple(dict.fromkeys(manifest.backends.values()))
    metrics = sorted({name for of_case in scores.values() for name in of_case})
    for item in run.cases:
        record = run.get_record(item.id)
        if record is None:
            continue
        of_case = scores.get(item.id, {})
        yield CaseRow(
            id=record.id,
            task=manifest.task,
            pipeline=manifest.pipeline,
            models=models,
            question=question_of(item),
            patient=patient_of(item),
            status=record.status.value,
            answer=answer_text(record),
            lines=answer_lines(record),
            citations=cited_ids(record),
            evidence=tuple(_evidence(item, record)),
            error=record.error,
            calls=record.usage.calls,
            prompt_tokens=record.usage.prompt_tokens,
            completion_tokens=record.usage.completion_tokens,
            cost_usd=record.usage.cost_usd,
            seconds=record.seconds,
            scores={name: of_case.get(name) for name in metrics} or None,
        )


def write_rows(run: Run, scores: CaseScores) -> str:
    """Return the rows as JSON Lines."""
    return "".join(f"{_line(row)}\n" for row in case_rows(run, scores))


def _line(row: CaseRow) -> str:
    return json.dumps(row.model_dump(mode="json"), ensure_ascii=False)


def question_of(item: Any) -> str:
    """Return the question of a case, of a question to a record, or the instruction of a task."""
    if isinstance(item, Case):
        of_patient = " ".join(phrase.text for phrase in item.patient_question)
        return item.clinician_question or of_patient or item.patient_narrative
    if isinstance(item, ClinicalTask):
        return item.instruction
    return str(getattr(item, "question", ""))


def patient_of(item: Any) -> str | None:
    """Return the FHIR id of the patient who is asked about; None where there is none."""
    if isinstance(item, RecordQuestion):
        return item.patient_fhir_id.removeprefix("Patient/") or None
    return None


def answer_lines(record: CaseRecord) -> tuple[RowLine, ...]:
    """Return the lines of an answer; an answer of a record is one line with all it cites."""
    if record.answer is not None:
        claims = record.answer.claims
        return tuple(RowLine(text=claim.text, citations=claim.citations) for claim in claims)
    text = answer_text(record)
    return (RowLine(text=text, citations=cited_ids(record)),) if text else ()


def answer_text(record: CaseRecord) -> str | None:
    """Return the answer without citations; None if there is none."""
    if record.answer is not None:
        return "\n".join(claim.text for claim in record.answer.claims)
    return record.result.answer_text if record.result else None


def cited_ids(record: CaseRecord) -> tuple[str, ...]:
    """Return the ids that an answer cites, each once, in its order."""
    if record.answer is not None:
        ids = [cited for claim in record.answer.claims for cited in claim.citations]
        return tuple(dict.fromkeys(ids))
    return record.evidence or (record.result.cited_resources if record.result else ())


def _evidence(item: Any, record: CaseRecord) -> Iterator[RowEvidence]:
    texts: Mapping[str, str] = {}
    if isinstance(item, Case):
        texts = item.text_of
    elif record.result is not None:
        texts = record.result.evidence_texts
    for cited in cited_ids(record):
        yield RowEvidence(id=cited, text=texts.get(cited))
