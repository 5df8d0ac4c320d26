"""Exports a run: submissions of the benchmarks, tables, and what other tools read."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from archqa import tasks
from archqa.core.case import Case
from archqa.core.near_misses import unknown_name
from archqa.core.question import ClinicalTask, RecordQuestion
from archqa.core.value import FrozenModel
from archqa.errors import CallerError
from archqa.fhir.views.answer_bundle import AnsweredLine, AnsweredQuestion, answer_bundle
from archqa.runs.record import CaseRecord, CaseStatus
from archqa.runs.run import Run
from archqa.safety.text import formula_free

CaseScores = Mapping[str, Mapping[str, float]]
"""Case id and metric to a score."""

ROWS = "jsonl"


def formats() -> tuple[str, ...]:
    """The names that `--format` takes: the tasks' submissions, and the formats of any run."""
    return (*tasks.names(), *_FORMATS_OF_ANY_RUN)


def takes_zip(name: str) -> bool:
    """Whether the organisers take this format as a zip."""
    return name not in _FORMATS_OF_ANY_RUN and tasks.find(name).export.as_zip


def zip_submission(content: str) -> bytes:
    """A zip with `submission.json` alone, as the organisers of 2026 take it.

    Equal submissions make equal bytes: the time stamp in it is the zip format's earliest.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("submission.json"), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def export(
    path: str | Path,
    name: str,
    *,
    partial: bool = False,
    case_scores: CaseScores = {},  # noqa: B006  # It is never changed.
) -> str:
    """The run in the format of this name (one of `formats()`).

    `case_scores` are put into the rows of `jsonl`. Raises `CallerError` when a submission would
    lack cases, since the organisers' script refuses such a file.
    """
    run = Run.open(path)
    if name not in formats():
        raise unknown_name("format", name, formats())
    if name in _FORMATS_OF_ANY_RUN:
        return _FORMATS_OF_ANY_RUN[name](run, case_scores)
    task = tasks.find(name)
    unanswered = len(run.manifest.case_ids) - run.count(CaseStatus.ANSWERED)
    if task.export.needs_all_cases and unanswered and not partial:
        raise CallerError(
            f"{unanswered} of {len(run.manifest.case_ids)} cases have no answer; "
            "the organisers' script refuses such a file.\n"
            "Go on with `archqa predict --resume`, or export what there is with --partial."
        )
    return _submission(run, task)


def _submission(run: Run, task: tasks.Task) -> str:
    """Return the submission for a task, from a run of it or, if allowed, of a related task."""
    made_by = task.export.made_by
    if not made_by and run.manifest.task != task.name:
        raise CallerError(
            f"{run.path} is a run of {run.manifest.task}.\n"
            f"Export it with --format {run.manifest.task}."
        )
    rows = task.submission(run.ended())
    missing = run.count(CaseStatus.ANSWERED) - len(rows)
    if made_by and missing:
        raise CallerError(
            f"{missing} answered cases of {run.path} have nothing for {task.name}.\n{made_by}"
        )
    return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"


def _csv(run: Run) -> str:
    table = run.to_pandas().map(formula_free)
    return str(table.to_csv(index=False))


class RowLine(FrozenModel):
    """One line of an answer, and the ids it cites."""

    text: str
    citations: tuple[str, ...]


class RowEvidence(FrozenModel):
    """A sentence or resource that the answer cites; no text where the run did not keep it."""

    id: str
    text: str | None


class CaseRow(FrozenModel):
    """One case: what was asked, and all that the answer rests on.

    Every row has the same keys, so that a column has one type.
    """

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


def _case_rows(run: Run, scores: CaseScores) -> Iterator[CaseRow]:
    """Yield a row for every case that ended, in the order of the case file."""
    manifest = run.manifest
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
            models=manifest.answered_by,
            question=_question_of(item),
            patient=_patient_of(item),
            status=record.status.value,
            answer=_answer_text(record),
            lines=_answer_lines(record),
            citations=_cited_ids(record),
            evidence=tuple(_evidence(item, record)),
            error=record.error,
            calls=record.usage.calls,
            prompt_tokens=record.usage.prompt_tokens,
            completion_tokens=record.usage.completion_tokens,
            cost_usd=record.usage.cost_usd,
            seconds=record.seconds,
            scores={name: of_case.get(name) for name in metrics} or None,
        )


def _write_rows(run: Run, scores: CaseScores) -> str:
    """Return the rows as JSON Lines, as `datasets.load_dataset("json")` and pandas read them."""
    lines = []
    for row in _case_rows(run, scores):
        lines.append(json.dumps(row.model_dump(mode="json"), ensure_ascii=False) + "\n")
    return "".join(lines)


def _write_bundle(run: Run) -> str:
    """Return answers with their Provenance as one FHIR Bundle in JSON. Raises `CallerError` for a run on notes."""
    manifest = run.manifest
    if tasks.find(manifest.task).reads_notes:
        raise CallerError(
            f"{run.path} is a run on notes, which cites no FHIR resources.\n"
            "Export it with --format jsonl."
        )
    at = manifest.ended_at or manifest.started_at
    bundle = answer_bundle(list(_answered_questions(run)), at)
    return json.dumps(bundle, ensure_ascii=False, indent=2) + "\n"


def _answered_questions(run: Run) -> Iterator[AnsweredQuestion]:
    """Yield the cases that ended, but those that failed: they have no answer."""
    manifest = run.manifest
    models = ", ".join(manifest.answered_by)
    for item in run.cases:
        record = run.get_record(item.id)
        if record is None or record.status is CaseStatus.FAILED:
            continue
        lines = [AnsweredLine(line.text, line.citations) for line in _answer_lines(record)]
        yield AnsweredQuestion(
            question=_question_of(item),
            status=record.status.value,
            lines=tuple(lines),
            at=manifest.ended_at or manifest.started_at,
            version=manifest.versions.get("archqa", ""),
            message=record.error,
            patient=_patient_of(item),
            model=models if record.usage.calls or record.usage.cached_calls else "",
            remarks=record.remarks,
            name=f"{manifest.run}/{record.id}",
        )


def _question_of(item: Any) -> str:
    """Return the question of a case, of a question to a record, or the instruction of a task."""
    if isinstance(item, Case):
        of_patient = " ".join(phrase.text for phrase in item.patient_question)
        return item.clinician_question or of_patient or item.patient_narrative
    if isinstance(item, ClinicalTask):
        return item.instruction
    return str(getattr(item, "question", ""))


def _patient_of(item: Any) -> str | None:
    """Return the FHIR id of the patient who is asked about; None where there is none."""
    if isinstance(item, RecordQuestion):
        return item.patient_fhir_id.removeprefix("Patient/") or None
    return None


def _answer_lines(record: CaseRecord) -> tuple[RowLine, ...]:
    """Return the lines of an answer; an answer of a record is one line with all it cites."""
    if record.answer is not None:
        claims = record.answer.claims
        return tuple(RowLine(text=claim.text, citations=claim.citations) for claim in claims)
    text = _answer_text(record)
    return (RowLine(text=text, citations=_cited_ids(record)),) if text else ()


def _answer_text(record: CaseRecord) -> str | None:
    """Return the answer without citations; None if there is none."""
    if record.answer is not None:
        return "\n".join(claim.text for claim in record.answer.claims)
    return record.result.answer_text if record.result else None


def _cited_ids(record: CaseRecord) -> tuple[str, ...]:
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
    for cited in _cited_ids(record):
        yield RowEvidence(id=cited, text=texts.get(cited))


_FORMATS_OF_ANY_RUN: dict[str, Callable[[Run, CaseScores], str]] = {
    "csv": lambda run, _: _csv(run),
    ROWS: _write_rows,
    "fhir-bundle": lambda run, _: _write_bundle(run),
}
