"""Scores a run folder, a submission file or rows in memory by their task's official metrics."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archqa.errors import CallerError, without_suppressed_causes
from archqa.evaluation.submissions import open_submission
from archqa.runs.folder import RunFolder
from archqa.runs.run import Run
from archqa.safety.arguments import as_optional_path, as_path
from archqa.tasks import registry
from archqa.tasks.scoring import ScoreSettings, ScoringInputs, ScoringRequest, write_official_text
from archqa.tasks.scoring.score_report import RowScorer, ScoreReport
from archqa.tasks.task import CompletedCase, EndedRun
from scoring import known_metrics, own_metrics
from scoring.tasks import archehr2025

if TYPE_CHECKING:
    from archqa.tasks.scoring.judging import Judge

__all__ = [
    "ScoreReport",
    "ScoreSettings",
    "built_in_metric_names",
    "metric_availability",
    "metric_names",
    "row_scorer",
    "score",
    "submitted_rows",
]


@without_suppressed_causes
def score(
    target: str | Path | Run,
    *,
    task: str | None = None,
    key: str | Path | None = None,
    data: str | Path | None = None,
    second_key: str | Path | None = None,
    record: str | None = None,
    fhir_base: str | None = None,
    allow_plain_http: bool = False,
    case_ids: tuple[str, ...] = (),
    judge: "Judge | None" = None,
    official: Path | None = None,
    strict: bool = False,
    settings: ScoreSettings | None = None,
    keep: bool = True,
    all_cases: bool = False,
) -> ScoreReport:
    """Score a run, its folder or a submission file. A run knows its data; a bare file needs `data` or `key`.

    task: the task, where the rows do not tell it. record: what MedAgentBench's conversations are
    graded against. fhir_base: the base URL that their agents were told, where it is not the
    benchmark's `http://localhost:8080/fhir/`. allow_plain_http: whether the record may be a server
    on another machine without https. case_ids: narrows the key (`121-167 5`). judge: decides the
    FHIR-AgentBench replies that no rule does, and whether the cited lines of ArchEHR-QA are supported
    (`line_support_judged`). official: where to write the organisers' file.
    strict: refuse an ArchEHR-QA submission that the organisers' script refuses, in its words.
    keep: write `scores.json` into the run folder, and `disagreements.jsonl` next to the scores
    where a judge's votes differ, `unsupported_lines.jsonl` where it finds lines not supported.
    all_cases: count the cases that a partial run has not reached as unanswered; else it is scored
    over its own cases.

    Raises `InputError` for files that are absent, malformed or do not belong together, `CallerError` for
    an unknown task or metric or a file that was not named, `ModelError` if the judge cannot be asked.
    """
    key = as_optional_path(key, "key")
    data = as_optional_path(data, "data")
    second_key = as_optional_path(second_key, "second_key")
    path = target.path if isinstance(target, Run) else as_path(target, "What is to be scored")
    submission = open_submission(path, task)
    bridge = registry.find(submission.task).scoring()
    if judge is not None and not bridge.takes_judge:
        raise CallerError(
            f"A judge has nothing to read in {submission.task}.\nIt decides replies of FHIR-AgentBench "
            "and reads the cited lines of ArchEHR-QA (2025, and subtasks 3 and 4 of 2026)."
        )
    if fhir_base is not None and not bridge.takes_fhir_base:
        raise CallerError(
            f"A FHIR base URL belongs to MedAgentBench, not to {submission.task}.\n"
            "Leave --fhir-base out."
        )
    request = ScoringRequest(
        submission=submission,
        inputs=ScoringInputs(
            key=key,
            data=data,
            second_key=second_key,
            case_ids=case_ids,
            run=submission.run,
            record=record,
            allow_plain_http=allow_plain_http,
            fhir_base=fhir_base,
            all_cases=all_cases,
        ),
        settings=settings or ScoreSettings(),
        strict=strict,
        judge=judge,
        official_path=official,
    )
    report = bridge.score(request)
    return _save(report, request) if keep else report


def row_scorer(
    task: str, cases: Path, key: Path | None = None, record: str | None = None
) -> RowScorer:
    """What scores rows of a task that are in memory.

    Raises `CallerError` for a task whose rows cannot be scored so and for a file that was not
    named, `InputError` for malformed files.
    """
    inputs = ScoringInputs(key=key, data=cases, record=record)
    return registry.find(task).scoring().row_scorer(inputs)


def submitted_rows(task: str, completed: CompletedCase, case_ids: Sequence[str]) -> list[Any]:
    """The rows that a run of these cases submits for one of them."""
    benchmark = registry.find(task)
    if benchmark.scoring().reads_submission_file:
        rows: list[Any] = benchmark.submission([completed])
        return rows
    run = EndedRun(Path(), "", tuple(case_ids), [completed])
    rows, _ = benchmark.scoring().rows_of_run(run)
    return rows


def metric_availability() -> dict[str, str | None]:
    """Every metric of the leaderboard of 2025: None where it can run here, else what to install."""
    metrics = archehr2025.leaderboard_metrics()
    return {name: metric.availability() for name, metric in metrics.items()}


def metric_names() -> list[str]:
    """The names `--metric` takes, those of plug-ins included."""
    return sorted({*known_metrics(), *archehr2025.leaderboard_metrics()})


def built_in_metric_names() -> frozenset[str]:
    """Those of archqa's own, which no plug-in can take."""
    return frozenset({*own_metrics(), *archehr2025.leaderboard_metrics()})


def _save(report: ScoreReport, request: ScoringRequest) -> ScoreReport:
    """Write the scores into the run's folder and next to the official file."""
    submission, official = request.submission, request.official_path
    if submission.run:
        folder = RunFolder.open(submission.run.folder)
        for name, content in report.run_files.items():
            folder.write_json(name, content)
        folder.write_json("scores.json", report.as_json())
    if official:
        details = json.dumps(report.as_json(), ensure_ascii=False, indent=2) + "\n"
        write_official_text(official.with_suffix(".about.json"), details)
    folder_path = official.parent if official else submission.folder
    disagreements = _save_judged(folder_path / "disagreements.jsonl", report.disagreements, request)
    unsupported = _save_judged(
        folder_path / "unsupported_lines.jsonl", report.unsupported_lines, request
    )
    return replace(report, disagreements_path=disagreements, unsupported_lines_path=unsupported)


def _save_judged(
    path: Path, rows: Sequence[dict[str, Any]], request: ScoringRequest
) -> Path | None:
    """The file that these rows of a judge were written to; None if there was nothing to write."""
    # What an earlier judge left would mislead.
    replaces_earlier = request.judge is not None and path.exists()
    if not rows and not replaces_earlier:
        return None
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    write_official_text(path, "".join(lines))
    return path
