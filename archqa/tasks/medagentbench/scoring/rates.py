"""MedAgentBench's rates of a submission: rows that are graded already, or conversations that are graded here."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from archqa.tasks.medagentbench.baselines import constant_replies
from archqa.tasks.medagentbench.scoring.grading import GradedRows, grade_rows, open_record_lookup
from scoring import Scores
from scoring.tasks import medagentbench
from scoring.tasks.medagentbench_transcript import Task

Grading = Literal["official", "clinical", "both"]
_NO_MODEL = {"scripted", "do-nothing"}


class ClinicalScores(NamedTuple):
    """Scores, what doing nothing would have scored, and every fault by task (None where rows came graded)."""

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
) -> ClinicalScores:
    """Rates over the tasks, of a run of `pipeline`, graded against `record`.

    Raises `CallerError` where conversations are to be graded and no record is at hand.
    """
    ids = [task.id for task in tasks]
    if not (rows and all("output" in row for row in rows)):
        scores = medagentbench.score(rows, ids, grading=grading, **common)
        return ClinicalScores(scores, constant_replies(ids))
    graded, warnings = _graded(rows, tasks, record)
    scores = medagentbench.score(
        graded.rows, ids, baselines=graded.do_nothing_rows, grading=grading, **common
    )
    scores.warnings.extend([*warnings, *_no_model(pipeline)])
    return ClinicalScores(
        scores,
        scores.tables["baselines"],
        {row["task_id"]: _faults(row) for row in graded.rows},
        graded,
    )


def _graded(
    rows: Sequence[Mapping[str, Any]], tasks: Sequence[Task], record: str | None
) -> tuple[GradedRows, list[str]]:
    with open_record_lookup(record) as lookup:
        return grade_rows(rows, tasks, lookup), lookup.warnings


def _no_model(pipeline: str) -> list[str]:
    """A warning where no model acted."""
    if pipeline not in _NO_MODEL:
        return []
    return [f"the pipeline {pipeline} is a fixed policy: this is no score of any model."]


def _faults(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"official": row["faults"], "clinical": row["clinical_faults"]}
