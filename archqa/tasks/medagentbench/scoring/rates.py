"""MedAgentBench's rates of a submission.

The submission has rows that are graded already, or conversations that are graded here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from archqa.tasks.medagentbench.baselines import constant_replies
from archqa.tasks.medagentbench.scoring.grading import (
    GradedRows,
    checked_base,
    grade_rows,
    open_record_lookup,
)
from scoring import Scores
from scoring.tasks import medagentbench
from scoring.tasks.medagentbench_transcript import Task

Grading = Literal["official", "clinical", "both"]


class ClinicalScores(NamedTuple):
    """Scores, the baselines' rates, and every fault by task (None for rows graded before)."""

    scores: Scores
    baselines: dict[str, dict[str, float]]
    faults: dict[str, dict[str, Any]] | None = None
    graded: GradedRows | None = None


def score_clinical(
    rows: Sequence[Mapping[str, Any]],
    tasks: Sequence[Task],
    grading: Grading,
    common: Mapping[str, Any],
    *,
    record: str | None,
    pipeline: str,
    allow_plain_http: bool = False,
    fhir_base: str | None = None,
) -> ClinicalScores:
    """Rates over the tasks of a run of `pipeline`, graded against `record`.

    `common` goes to `scoring`. `fhir_base` is the base URL that the agents were told.

    Raises `CallerError` if conversations need grading and no record is named.
    """
    base = checked_base(fhir_base)
    task_ids = [task.id for task in tasks]
    if not _are_transcripts(rows):
        scores = medagentbench.score(rows, task_ids, grading=grading, **common)
        return ClinicalScores(scores, constant_replies(task_ids))
    with open_record_lookup(record, allow_plain_http=allow_plain_http) as lookup:
        graded = grade_rows(rows, tasks, lookup, base)
        warnings = [*lookup.warnings, *graded.warnings(base)]
    scores = medagentbench.score(
        graded.rows,
        task_ids,
        baselines=graded.do_nothing_rows,
        grading=grading,
        **common,
    )
    scores.warnings.extend(warnings)
    if pipeline == "do-nothing":
        scores.warnings.append("the pipeline do-nothing is no score of any model.")
    faults = {row["task_id"]: _faults(row) for row in graded.rows}
    return ClinicalScores(scores, scores.tables["baselines"], faults, graded)


def _are_transcripts(rows: Sequence[Mapping[str, Any]]) -> bool:
    return bool(rows) and all("output" in row for row in rows)


def _faults(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"official": row["faults"], "clinical": row["clinical_faults"]}
