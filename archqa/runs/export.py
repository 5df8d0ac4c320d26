"""Exports a run: submissions of the benchmarks, tables, and what other tools read."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from archqa import tasks
from archqa.core.case import Case
from archqa.core.near_misses import unknown_name
from archqa.core.question import Item, RecordQuestion, question_of
from archqa.errors import CallerError
from archqa.fhir.views.answer_bundle import (
    AnsweredLine,
    AnsweredQuestion,
    answer_bundle,
)
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
        archive.writestr(
            zipfile.ZipInfo("submission.json"), content, zipfile.ZIP_DEFLATED
        )
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
    answered = run.count(CaseStatus.ANSWERED)
    unanswered = len(run.manifest.case_ids) - answered
    if task.export.needs_all_cases and unanswered and not partial:
        raise CallerError(
            f"{unanswered} of {len(run.manifest.case_ids)} cases have no answer; "
            "the organisers' script refuses such a file.\n"
            "Go on with `archqa predict --resume`, or export what there is with --partial."
        )
    # Some tasks are submitted from a run of a related task.
    made_by = task.export.made_by
    if not made_by and run.manifest.task != task.name:
        raise CallerError(
            f"{run.path} is a run of {run.manifest.task}.\n"
            f"Export it with --format {run.manifest.task}."
        )
    rows = task.submission(run.ended())
    missing = answered - len(rows)
    if made_by and missing:
        raise CallerError(
            f"{missing} answered cases of {run.path} have nothing for {task.name}.\n{made_by}"
        )
    return json.dumps(rows, ensure_ascii=False, indent=2) + "\n"


def _write_csv(run: Run, _scores: CaseScores) -> str:
    return str(run.to_pandas().map(formula_free).to_csv(index=False))


def _write_rows(run: Run, scores: CaseScores) -> str:
    """Return the cases that ended as JSON Lines, in the order of the case file.

    `datasets.load_dataset("json")` and pandas read them: every row has the same keys, so that a
    column has one type. A text of the evidence is null where the run did not keep it.
    """
    metrics = sorted({name for of_case in scores.values() for name in of_case})
    text = ""
    for item in run.cases:
        record = run.get_record(item.id)
        if record is None:
            continue
        lines = _answer_lines(record)
        citations = record.evidence_ids
        if record.answer is not None:
            citations = tuple(
                dict.fromkeys(cited for line in lines for cited in line.citations)
            )
        texts: Mapping[str, str] = {}
        if isinstance(item, Case):
            texts = item.text_of
        elif record.result is not None:
            texts = record.result.evidence_texts
        answer = None
        if record.submitted_text is not None:
            answer = "\n".join(line.text for line in lines)
        of_case = scores.get(item.id, {})
        row = {
            "id": record.id,
            "task": run.manifest.task,
            "pipeline": run.manifest.pipeline,
            "models": run.manifest.answered_by,
            "question": question_of(item),
            "patient": _patient_of(item),
            "status": record.status.value,
            "answer": answer,
            "lines": [line._asdict() for line in lines],
            "citations": citations,
            "evidence": [
                {"id": cited, "text": texts.get(cited)} for cited in citations
            ],
            "error": record.error,
            "calls": record.usage.calls,
            "prompt_tokens": record.usage.prompt_tokens,
            "completion_tokens": record.usage.completion_tokens,
            "cost_usd": record.usage.cost_usd,
            "seconds": record.seconds,
            "scores": {name: of_case.get(name) for name in metrics} or None,
        }
        text += json.dumps(row, ensure_ascii=False) + "\n"
    return text


def _write_bundle(run: Run, _scores: CaseScores) -> str:
    """Return answers with their Provenance as one FHIR Bundle in JSON.

    Raises `CallerError` for a run on notes.
    """
    manifest = run.manifest
    if tasks.find(manifest.task).reads_notes:
        raise CallerError(
            f"{run.path} is a run on notes, which cites no FHIR resources.\n"
            "Export it with --format jsonl."
        )
    at = manifest.ended_at or manifest.started_at
    models = ", ".join(manifest.answered_by)
    questions = []
    for item in run.cases:
        record = run.get_record(item.id)
        if record is None or record.status is CaseStatus.FAILED:
            continue  # It has no answer.
        question = AnsweredQuestion(
            question=question_of(item),
            status=record.status.value,
            lines=_answer_lines(record),
            at=at,
            version=manifest.versions.get("archqa", ""),
            message=record.error,
            patient=_patient_of(item),
            model=models if record.usage.calls or record.usage.cached_calls else "",
            remarks=record.remarks,
            name=f"{manifest.run}/{record.id}",
        )
        questions.append(question)
    return json.dumps(answer_bundle(questions, at), ensure_ascii=False, indent=2) + "\n"


def _patient_of(item: Item) -> str | None:
    """Return the FHIR id of the patient who is asked about; None where there is none."""
    if isinstance(item, RecordQuestion):
        return item.patient_fhir_id.removeprefix("Patient/") or None
    return None


def _answer_lines(record: CaseRecord) -> tuple[AnsweredLine, ...]:
    """Return the lines of an answer; an answer of a record is one line with all it cites."""
    if record.answer is not None:
        claims = record.answer.claims
        return tuple(AnsweredLine(claim.text, claim.citations) for claim in claims)
    text = record.submitted_text
    return (AnsweredLine(text, record.evidence_ids),) if text else ()


_FORMATS_OF_ANY_RUN: dict[str, Callable[[Run, CaseScores], str]] = {
    "csv": _write_csv,
    ROWS: _write_rows,
    "fhir-bundle": _write_bundle,
}
