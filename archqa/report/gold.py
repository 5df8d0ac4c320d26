"""The gold of a run's cases, and the score of each: what a reviewer must not see too early."""

from pathlib import Path
from typing import Any, NamedTuple

from archqa import tasks
from archqa.core.key import CaseKey
from archqa.errors import ArchqaError, InputError
from archqa.evaluation.scoring import ScoreSettings, score
from archqa.report.report_data import load_gold_questions, load_note_keys
from archqa.report.scoreboard import earliest_metric
from archqa.runs.run import Run
from archqa.tasks.fhir_agentbench.task import FhirQuestion


class Gold(NamedTuple):
    """`keys` are of notes, `questions` of FHIR-AgentBench, by case id.

    `per_case` maps case id and metric to a score, `scores` case id to the one that orders cases.
    """

    keys: dict[str, CaseKey]
    questions: dict[str, FhirQuestion]
    per_case: dict[str, dict[str, float]]
    scores: dict[str, float]


def load_gold(run: Run, key: Path | None) -> Gold:
    """Return the gold of a run, from `key` if that is its own; empty where there is none.

    Only the quick metrics are computed, without intervals.
    """
    try:
        return _load_gold(run, key)
    except InputError:  # The key may belong to another run.
        return _load_gold(run, None)


def _load_gold(run: Run, key: Path | None) -> Gold:
    keys = load_note_keys(run, key)
    per_case = _score_cases(run, key)
    metric = earliest_metric({name for scores in per_case.values() for name in scores})
    scores = {case_id: row[metric] for case_id, row in per_case.items() if metric in row}
    return Gold(keys, load_gold_questions(run, key), per_case, scores)


def _score_cases(run: Run, key: Path | None) -> dict[str, Any]:
    case_metrics = tasks.find(run.manifest.task).display.case_metrics
    settings = ScoreSettings(metrics=case_metrics, bootstrap=0)
    try:
        return score(run.path, key=key, settings=settings, keep=False).scores.per_case
    except ArchqaError:  # An unfinished run, or one without a key, has no scores.
        return {}
