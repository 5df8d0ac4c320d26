"""What a report is made of: a run, its scores, and the key it can be held against. No model is asked."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from archqa import tasks
from archqa.core.key import CaseKey
from archqa.errors import ArchqaError
from archqa.evaluation.scoring import ScoreReport, ScoreSettings, score
from archqa.runs.run import Run
from archqa.tasks.fhir_agentbench.cases import FhirAgentBench, FhirQuestion, load_questions


class ReportData(NamedTuple):
    """A run and what is known beside it. `unscored_reason` is empty where there are scores.

    `scores` is the content of `scores.json`; `per_case` case id → score name → value; `keys` the gold of notes,
    `questions` that of FHIR-AgentBench; `faults` maps a question or task to what its graders found wrong.
    """

    run: Run
    scores: dict[str, Any] | None
    per_case: dict[str, dict[str, float]]
    keys: dict[str, CaseKey]
    questions: dict[str, FhirQuestion]
    faults: dict[str, dict[str, Any]]
    unscored_reason: str = ""

    @property
    def decimals(self) -> int:
        """Decimals of this task's scores."""
        return tasks.find(self.run.manifest.task).display.decimals

    @property
    def max_score(self) -> float:
        """The best score there can be."""
        return tasks.find(self.run.manifest.task).display.max_score


def load_report_data(path: str | Path, key: Path | None = None) -> ReportData:
    """Read a run folder and its scores; they are computed if the run has none and a key is at hand.

    Nothing is written. Raises `InputError` if the folder is no run or the key is malformed.
    """
    run = Run.open(path)
    kept = _kept_scores(run)
    found, why = _scored(run, key, kept)
    scores = kept or (found.as_json() if found else None)
    faults = (scores or {}).get("faults") or {}
    per_case = found.scores.per_case if found else {}
    return ReportData(run, scores, per_case, _keys(run, key), _questions(run, key), faults, why)


def _kept_scores(run: Run) -> dict[str, Any] | None:
    path = run.path / "scores.json"
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else None


def _scored(
    run: Run, key: Path | None, kept: dict[str, Any] | None
) -> tuple[ScoreReport | None, str]:
    """The scores, for each case too, or why there are none."""
    quick = tasks.find(run.manifest.task).display.case_metrics if kept else None
    settings = ScoreSettings(metrics=quick, bootstrap=0 if kept else 1000)
    try:
        return score(run.path, key=key, settings=settings, keep=False), ""
    except ArchqaError as error:  # A run under way, or one without a key, is shown all the same.
        return None, "" if kept else str(error).splitlines()[0]


def _keys(run: Run, key: Path | None) -> dict[str, CaseKey]:
    if not tasks.find(run.manifest.task).reads_notes:
        return {}
    data = Path(run.manifest.data.path)
    found = key or (tasks.find_key(data) if data.is_file() else None)
    return tasks.load_key(found).keys if found else {}


def _questions(run: Run, key: Path | None) -> dict[str, FhirQuestion]:
    """The gold of FHIR-AgentBench; nothing where its file is gone."""
    path = key or Path(run.manifest.data.path)
    if not isinstance(tasks.find(run.manifest.task), FhirAgentBench) or not path.is_file():
        return {}
    try:
        return {each.question_id: each for each in load_questions(path).questions}
    except ArchqaError:
        return {}
