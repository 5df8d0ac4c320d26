"""The dataset card of a run's rows (huggingface.co/docs/hub/datasets-cards): what they are, of what."""

import json

from archqa.runs.exports.case_rows import CaseRow
from archqa.runs.run import Run

_FIELDS = {
    "question": "what was asked",
    "patient": "FHIR id of the patient, for questions to a record",
    "status": "answered, failed or unanswerable",
    "answer": "the answer without citations",
    "lines": "its lines, each with the ids it cites",
    "citations": "all ids that the answer cites",
    "evidence": "the cited sentences or resources; text where the run kept it",
    "scores": "scores of this case where the run was scored",
}


def dataset_card(run: Run, data_file: str) -> str:
    """Return the card, as `README.md` beside the rows (`data_file`). It holds no record text."""
    manifest = run.manifest
    others = ", ".join(name for name in CaseRow.model_fields if name not in _FIELDS)
    lines = [
        "---",
        f"pretty_name: {json.dumps(f'archqa {manifest.task} ({manifest.pipeline})')}",
        "license: other",
        "task_categories: [question-answering]",
        "tags: [clinical, ehr, evidence, archqa]",
        "configs:",
        "  - config_name: default",
        f"    data_files: {json.dumps(data_file)}",
        "---",
        "",
        f"# Answers of archqa to {manifest.task}",
        "",
        f"One row a case: {len(run.records)} of {len(manifest.case_ids)} cases, answered by the "
        f"pipeline `{manifest.pipeline}` of archqa {manifest.versions.get('archqa', '')}.",
        "",
        f"- case file: sha256 `{manifest.data.sha256}`",
        f"- answered by: {', '.join(sorted(set(manifest.backends.values())))}",
        f"- begun: {manifest.started_at.isoformat(timespec='seconds')}",
        "",
        "**The rows hold text of health records.** They stand under the terms of the case file "
        "(PhysioNet's forbid to pass on its notes): do not publish them before you checked these.",
        "",
        "| field | content |",
        "|---|---|",
        *(f"| `{name}` | {content} |" for name, content in _FIELDS.items()),
        "",
        f"Also: {others}.",
    ]
    return "\n".join(lines) + "\n"
