"""A run of questions to FHIR records as one FHIR Bundle: answers, each with its Provenance."""

import json
from collections.abc import Iterator

from archqa import tasks
from archqa.errors import CallerError
from archqa.fhir.views.answer_bundle import AnsweredLine, AnsweredQuestion, answer_bundle
from archqa.runs.exports.case_rows import answer_lines, patient_of, question_of
from archqa.runs.record import CaseStatus
from archqa.runs.run import Run


def write_bundle(run: Run) -> str:
    """Return the Bundle as JSON. Raises `CallerError` for a run on notes."""
    manifest = run.manifest
    if tasks.find(manifest.task).reads_notes:
        raise CallerError(
            f"{run.path} is a run on notes, which cites no FHIR resources.\n"
            "Export it with --format jsonl."
        )
    at = manifest.ended_at or manifest.started_at
    bundle = answer_bundle(list(_answers(run)), at)
    return json.dumps(bundle, ensure_ascii=False, indent=2) + "\n"


def _answers(run: Run) -> Iterator[AnsweredQuestion]:
    """Yield the cases that ended, but those that failed: they have no answer."""
    manifest = run.manifest
    models = ", ".join(dict.fromkeys(manifest.backends.values()))
    for item in run.cases:
        record = run.get_record(item.id)
        if record is None or record.status is CaseStatus.FAILED:
            continue
        lines = [AnsweredLine(line.text, line.citations) for line in answer_lines(record)]
        yield AnsweredQuestion(
            question=question_of(item),
            status=record.status.value,
            lines=tuple(lines),
            at=manifest.ended_at or manifest.started_at,
            version=manifest.versions.get("archqa", ""),
            message=record.error,
            patient=patient_of(item),
            model=models if record.usage.calls or record.usage.cached_calls else "",
            remarks=record.remarks,
            name=f"{manifest.run}/{record.id}",
        )
