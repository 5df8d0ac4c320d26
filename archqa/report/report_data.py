"""The data of a report: a run, its scores, and its key. No model is called."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from archqa import tasks
from archqa.core.key import CaseKey
from archqa.errors import ArchqaError, InputError
from archqa.evaluation.scoring import ScoreReport, ScoreSettings, score
from archqa.report.record_summaries import RecordSummary, read_summaries
from archqa.runs.record import RunStatus
from archqa.runs.run import Run
from archqa.tasks.fhir_agentbench.task import FhirAgentBench, FhirQuestion, load_questions


class ReportData(NamedTuple):
    """A run with its scores and its key. `unscored_reason` is empty where there are scores.

    `scores` is the content of `scores.json`; `per_case` maps case id and metric to a score; `keys`
    has the gold of notes, `gold_questions` that of FHIR-AgentBench; `faults` maps a question or
    task to the mistakes that its graders reported; `summaries` has how each case ended.
    """

    run: Run
    scores: dict[str, Any] | None
    per_case: dict[str, dict[str, float]]
    keys: dict[str, CaseKey]
    gold_questions: dict[str, FhirQuestion]
    faults: dict[str, dict[str, Any]]
    unscored_reason: str = ""
    summaries: Mapping[str, RecordSummary] = MappingProxyType({})

    @property
    def decimals(self) -> int:
        """Decimals of the task's scores."""
        return self._task.display.decimals

    @property
    def max_score(self) -> float:
        """The best possible score of the task."""
        return self._task.display.max_score

    @property
    def _task(self) -> tasks.Task:
        return tasks.find(self.run.manifest.task)


_Numbers = dict[str, float]
_JsonObject = dict[str, Any]
_Breakdown = dict[str, dict[str, float | None]]


class _StoredKey(BaseModel):
    """What `scores.json` says of the key."""

    model_config = ConfigDict(extra="ignore", strict=True)

    statement: str = ""
    circular: bool = False


class _StoredScores(BaseModel):
    """The members of `scores.json` that a report reads."""

    model_config = ConfigDict(extra="ignore", strict=True)

    scores: dict[str, Annotated[float, Field(allow_inf_nan=False)] | _Breakdown] = {}
    intervals: dict[str, tuple[float | None, float | None] | list[float | None]] = {}
    signatures: dict[str, str] = {}
    missing: dict[str, str] = {}
    warnings: list[str] = []
    baselines: dict[str, _Numbers] = {}
    faults: dict[str, _JsonObject] | None = None
    key: _StoredKey | None = None


def load_report_data(path: str | Path, key: Path | None = None) -> ReportData:
    """Read a run folder; scores that it lacks are computed if there is a key. Nothing is written.

    Stored scores of an earlier state of the run count as absent. Raises `InputError` if the folder
    is not a run or the key is malformed.
    """
    run = Run.open(path)
    summaries = read_summaries(run.path)
    scores = stored_scores(run)
    report, unscored_reason = _score(run, key, stored=scores is not None)
    if not _are_current(scores, report, len(summaries)):
        scores = None
        report, unscored_reason = _score(run, key, stored=False)
    per_case = report.scores.per_case if report else {}
    if scores is None and report is not None:
        scores = report.as_json()
    return ReportData(
        run=run,
        scores=scores,
        per_case=per_case,
        keys=load_note_keys(run, key),
        gold_questions=load_gold_questions(run, key),
        faults=(scores or {}).get("faults") or {},
        unscored_reason=unscored_reason,
        summaries=summaries,
    )


def load_stored_data(
    run: Run, summaries: Mapping[str, RecordSummary], ended: int | None = None
) -> ReportData:
    """Return what a run's folder has without scoring its cases; this takes no time.

    Scores that were stored before the last case ended, or that count unreached cases, are left out.
    `ended` is how many cases have ended, where no summaries are at hand.
    """
    scores = None
    if _modified_at(run.path / "scores.json") >= _modified_at(run.path / "cases.jsonl"):
        scores = stored_scores(run)
    if _counts_unreached(scores, len(summaries) if ended is None else ended):
        scores = None
    return ReportData(
        run=run,
        scores=scores,
        per_case={},
        keys={},
        gold_questions={},
        faults=(scores or {}).get("faults") or {},
        summaries=summaries,
    )


def _counts_unreached(scores: dict[str, Any] | None, ended: int) -> bool:
    """Whether scores count cases as unanswered that the run has not reached."""
    scored_cases = (scores or {}).get("cases")
    return isinstance(scored_cases, int) and scored_cases > ended


def _are_current(scores: dict[str, Any] | None, report: ScoreReport | None, ended: int) -> bool:
    """Whether stored scores are of the answers that the run has now, and of no unreached case."""
    if _counts_unreached(scores, ended):
        return False
    if scores is None or report is None:
        return True
    stored = scores.get("fingerprints")
    scored = stored.get("submission") if isinstance(stored, dict) else None
    return scored is None or scored == report.fingerprints.get("submission")


def _modified_at(path: Path) -> int:
    return path.stat().st_mtime_ns if path.is_file() else 0


def load_note_keys(run: Run, key: Path | None) -> dict[str, CaseKey]:
    """Return the keys of a run on notes: from `key`, else from the key next to the case file."""
    if not tasks.find(run.manifest.task).reads_notes:
        return {}
    case_file = Path(run.manifest.data.path)
    if key is None and case_file.is_file():
        key = tasks.find_key(case_file)
    if key is None:
        return {}
    return dict(tasks.load_key(key).keys)


def stored_scores(run: Run) -> dict[str, Any] | None:
    """Return the content of `scores.json`; None without one. Raises `InputError` if damaged."""
    path = run.path / "scores.json"
    if not path.exists():
        return None
    try:
        text = path.read_text(encoding="utf-8")
        _StoredScores.model_validate_json(text)
        content = json.loads(text)
    except (OSError, ValueError, RecursionError):
        fix = "Run `archqa score` anew, or remove the file."
        raise InputError(path, [": is damaged: these are no scores."], fix) from None
    assert isinstance(content, dict)
    return content


def _score(run: Run, key: Path | None, *, stored: bool) -> tuple[ScoreReport | None, str]:
    """Return the scores, or None and the reason.

    With stored scores, and for a run that runs, only the quick metrics are computed.
    """
    display = tasks.find(run.manifest.task).display
    settings = ScoreSettings(bootstrap=1000)
    # A running one is scored anew with every case.
    if stored or run.manifest.status is RunStatus.RUNNING:
        settings = ScoreSettings(metrics=display.case_metrics, bootstrap=0)
    try:
        return score(run.path, key=key, settings=settings, keep=False), ""
    except ArchqaError as error:  # An unfinished run, or one without a key, is shown unscored.
        reason = "" if stored else str(error).splitlines()[0]
        return None, reason


def load_gold_questions(run: Run, key: Path | None) -> dict[str, FhirQuestion]:
    """Return the gold of FHIR-AgentBench; empty where its file is gone or malformed."""
    path = key or Path(run.manifest.data.path)
    task = tasks.find(run.manifest.task)
    if not isinstance(task, FhirAgentBench) or not path.is_file():
        return {}
    try:
        questions = load_questions(path).questions
    except ArchqaError:
        return {}
    return {question.question_id: question for question in questions}
