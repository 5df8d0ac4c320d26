"""The data of a report: a run, how its cases ended, its scores, and its key. No model is called."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from archqa import tasks
from archqa.core.key import CaseKey
from archqa.core.result import reference_names
from archqa.core.value import JsonObject
from archqa.errors import ArchqaError, InputError
from archqa.evaluation.scoring import ScoreReport, ScoreSettings, score
from archqa.runs.record import RunStatus
from archqa.runs.run import Run
from archqa.safety.files import storage_errors
from archqa.tasks.fhir_agentbench.task import (
    FhirAgentBench,
    FhirQuestion,
    load_questions,
)

_CASE_METRICS = (
    "strict_micro_f1",
    "micro_f1",
    "answer_correctness",
    "f1",
    "success_rate",
    "rougeLsum",
    "overall_score",
)
"""The scores that cases are ordered by: the earliest one that they have."""

_ANSWER_FIELDS = ("agent_answer", "result", "question")
"""Fields of a `result` that hold the answer."""


class CaseSummary(NamedTuple):
    """How a case ended. `answer` and `evidence` are what two runs are compared by.

    `sure` is the mean probability that the agents state of the sentences that the answer cites;
    None where they state none. `tokens` is None if no model was called.
    """

    id: str
    status: str
    error: str
    remarks: tuple[str, ...]
    tokens: int | None
    cost: float | None
    seconds: float
    sure: float | None
    answer: str
    evidence: frozenset[str]


class ReportData(NamedTuple):
    """A run with its scores and its key. `unscored_reason` is empty where there are scores.

    `scores` is the content of `scores.json`; `per_case` maps case id and metric to a score; `keys`
    has the gold of notes, `gold_questions` that of FHIR-AgentBench; `faults` maps a question or
    task to the mistakes that its graders reported; `summaries` has how each case ended.
    """

    run: Run
    scores: JsonObject | None
    per_case: dict[str, dict[str, float]]
    keys: dict[str, CaseKey]
    gold_questions: dict[str, FhirQuestion]
    faults: dict[str, JsonObject]
    unscored_reason: str = ""
    summaries: Mapping[str, CaseSummary] = MappingProxyType({})

    @property
    def decimals(self) -> int:
        """Decimals of the task's scores."""
        return tasks.find(self.run.manifest.task).display.decimals

    @property
    def max_score(self) -> float:
        """The best possible score of the task."""
        return tasks.find(self.run.manifest.task).display.max_score

    @property
    def case_metric(self) -> str:
        """The score by which cases are ordered; empty if no case has one."""
        available: set[str] = set()
        for scores in self.per_case.values():
            available.update(scores)
        return earliest_metric(available)

    @property
    def case_scores(self) -> dict[str, float]:
        """Case id to the score by which cases are ordered."""
        metric = self.case_metric
        case_scores = {}
        for case_id, scores in self.per_case.items():
            if metric in scores:
                case_scores[case_id] = scores[metric]
        return case_scores


def earliest_metric(available: set[str]) -> str:
    """Return the one of these scores by which cases are ordered; empty if it is none of them."""
    for name in _CASE_METRICS:
        if name in available:
            return name
    return ""


_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Interval = tuple[float | None, float | None] | list[float | None]
_Numbers = dict[str, float]
_Breakdown = dict[str, dict[str, float | None]]


class _StoredKey(BaseModel):
    """The members of the key in `scores.json` that a report reads."""

    model_config = ConfigDict(extra="ignore", strict=True)

    statement: str = ""
    circular: bool = False


class _StoredScores(BaseModel):
    """The members of `scores.json` that a report reads."""

    model_config = ConfigDict(extra="ignore", strict=True)

    scores: dict[str, _Finite | _Breakdown] = {}
    intervals: dict[str, _Interval] = {}
    signatures: dict[str, str] = {}
    missing: dict[str, str] = {}
    warnings: list[str] = []
    baselines: dict[str, _Numbers] = {}
    faults: dict[str, JsonObject] | None = None
    key: _StoredKey | None = None


def load_report_data(path: str | Path, key: Path | None = None) -> ReportData:
    """Read a run folder; scores that it lacks are computed if there is a key. Nothing is written.

    Stored scores of an earlier state of the run count as absent. Raises `InputError` if the folder
    is not a run or the key is malformed.
    """
    run = Run.open(path)
    summaries = read_summaries(run.path)
    scores = _stored_scores(run)
    report, unscored_reason = _score(run, key, stored=scores is not None)
    if not _are_current(scores, report, len(summaries)):
        scores = None
        report, unscored_reason = _score(run, key, stored=False)
    if scores is None and report is not None:
        scores = report.as_json()
    return ReportData(
        run=run,
        scores=scores,
        per_case=report.scores.per_case if report else {},
        keys=load_note_keys(run, key),
        gold_questions=_load_gold_questions(run, key),
        faults=(scores or {}).get("faults") or {},
        unscored_reason=unscored_reason,
        summaries=summaries,
    )


def load_stored_data(
    run: Run,
    summaries: Mapping[str, CaseSummary],
    ended: int | None = None,
) -> ReportData:
    """Return what a run's folder has without scoring its cases; this takes no time.

    Scores that were stored before the last case ended, or that count unreached cases, are left out.
    `ended` is how many cases have ended, where there are no summaries.
    """
    scores = None
    scored_at = _modified_at(run.path / "scores.json")
    if scored_at >= _modified_at(run.path / "cases.jsonl"):
        scores = _stored_scores(run)
    if not _are_current(scores, None, len(summaries) if ended is None else ended):
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


def load_gold(run: Run, key: Path | None) -> ReportData:
    """Return a run with its gold and the scores of its cases, from `key` if that is its own.

    Only the quick metrics are computed, without intervals.
    """
    try:
        keys = load_note_keys(run, key)
        report, _ = _score(run, key, stored=True)
        gold_questions = _load_gold_questions(run, key)
    except InputError:
        if key is None:
            raise
        return load_gold(run, None)  # The key may belong to another run.
    per_case = report.scores.per_case if report else {}
    return ReportData(run, None, per_case, keys, gold_questions, faults={})


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


def read_summaries(run: Path) -> dict[str, CaseSummary]:
    """Return a summary of each case that has ended, by id.

    A record of a question on a FHIR record may hold thousands of rows; none is built. Raises
    `InputError` for a line that is not a record. A last line without its end was cut short by a
    kill and does not count.
    """
    path = run / "cases.jsonl"
    summaries: dict[str, CaseSummary] = {}
    with storage_errors(path):
        if not path.is_file():
            return summaries
        with path.open("rb") as file:
            for line_number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    continue
                try:
                    summary = _summarise(json.loads(line))
                except (
                    ValueError,
                    TypeError,
                    KeyError,
                    AttributeError,
                    RecursionError,
                ):
                    fix = "Somebody edited the file; remove the line to run its case again."
                    mistake = f":{line_number}: is not a case record."
                    raise InputError(path, [mistake], fix) from None
                summaries[summary.id] = summary
    return summaries


def _summarise(record: Mapping[str, Any]) -> CaseSummary:
    result = record.get("result") or {}
    texts: list[str] = []
    citations: list[str] = []
    if record.get("answer"):
        for claim in record["answer"]["claims"]:
            texts.append(claim["text"])
            citations += claim.get("citations") or ()
    else:
        for field in _ANSWER_FIELDS:
            if result.get(field):
                texts.append(str(result[field]))
                break
    links: list[str] = []
    for link in result.get("links") or ():
        links += link["evidence_id"]
    resources = reference_names(result.get("cited_fhir_resources") or {})
    sentence_ids = links or citations or record.get("evidence") or ()
    evidence = frozenset([*resources, *sentence_ids])
    probabilities = []
    for judgements in (record.get("judgements") or {}).values():
        for judgement in judgements:
            probability = judgement.get("probability")
            if probability is not None and judgement["sentence_id"] in evidence:
                probabilities.append(float(probability))
    usage = record.get("usage") or {}
    tokens = cost = None
    if usage.get("calls") or usage.get("cached_calls"):
        prompt_tokens = int(usage.get("prompt_tokens") or 0)
        tokens = prompt_tokens + int(usage.get("completion_tokens") or 0)
        cost = usage.get("cost_usd", 0.0)
    return CaseSummary(
        id=record["id"],
        status=record["status"],
        error=record.get("error") or "",
        remarks=tuple(record.get("remarks") or ()),
        tokens=tokens,
        cost=cost,
        seconds=record.get("seconds") or 0.0,
        sure=sum(probabilities) / len(probabilities) if probabilities else None,
        answer="\n".join(texts),
        evidence=evidence,
    )


def _stored_scores(run: Run) -> JsonObject | None:
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


def _score(
    run: Run,
    key: Path | None,
    *,
    stored: bool,
) -> tuple[ScoreReport | None, str]:
    """Return the scores, or None and the reason.

    With stored scores, and for a run that runs, only the quick metrics are computed.
    """
    display = tasks.find(run.manifest.task).display
    settings = ScoreSettings(bootstrap=1000)
    # A running one is scored anew with every case.
    if stored or run.manifest.status is RunStatus.RUNNING:
        settings = ScoreSettings(metrics=display.case_metrics, bootstrap=0)
    try:
        report = score(run.path, key=key, settings=settings, keep=False)
    except (
        ArchqaError
    ) as error:  # An unfinished run, or one without a key, is shown unscored.
        reason = "" if stored else str(error).splitlines()[0]
        return None, reason
    return report, ""


def _are_current(
    scores: JsonObject | None,
    report: ScoreReport | None,
    ended: int,
) -> bool:
    """Whether stored scores are of the answers that the run has now.

    Scores may also count cases as unanswered that the run has not reached.
    """
    if scores is None:
        return True
    scored_cases = scores.get("cases")
    if isinstance(scored_cases, int) and scored_cases > ended:
        return False
    stored = scores.get("fingerprints")
    scored = stored.get("submission") if isinstance(stored, dict) else None
    return (
        report is None
        or scored is None
        or scored == report.fingerprints.get("submission")
    )


def _modified_at(path: Path) -> int:
    return path.stat().st_mtime_ns if path.is_file() else 0


def _load_gold_questions(run: Run, key: Path | None) -> dict[str, FhirQuestion]:
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
