"""MedAgentBench's rates of a submission: rows that are graded already, or conversations that are graded here."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from archqa.runs import beside
from archqa.runs.clinical_grading import Graded, grade_rows, open_lookup
from archqa.runs.gold import Files
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


def score_clinical(
    rows: Sequence[Mapping[str, Any]], tasks: Sequence[Task], files: Files, grading: Grading, common: Mapping[str, Any]
) -> ClinicalScores:
    """Rates over the tasks. Raises `CallerError` where conversations are to be graded and no record is at hand."""
    ids = [task.id for task in tasks]
    if not (rows and all("output" in row for row in rows)):
        scores = medagentbench.score(rows, ids, grading=grading, **common)
        return ClinicalScores(scores, beside.medagentbench(ids))
    graded, warnings = _graded(rows, tasks, files)
    scores = medagentbench.score(graded.rows, ids, baselines=graded.idle, grading=grading, **common)
    scores.warnings.extend([*warnings, *_no_model(files)])
    return ClinicalScores(scores, scores.tables["baselines"], {row["task_id"]: _faults(row) for row in graded.rows})


def _graded(rows: Sequence[Mapping[str, Any]], tasks: Sequence[Task], files: Files) -> tuple[Graded, list[str]]:
    """Graded against the record that was named, else the run's own."""
    own = files.run.manifest.settings.get("record") if files.run else None
    with open_lookup(files.record or own) as lookup:
        return grade_rows(rows, tasks, lookup), lookup.warnings


def _no_model(files: Files) -> list[str]:
    name = files.run.manifest.pipeline if files.run else ""
    return [f"the pipeline {name} is a fixed policy: this is no score of any model."] if name in _NO_MODEL else []


def _faults(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"official": row["faults"], "clinical": row["clinical_faults"]}
