"""Scores a run folder, a submission file or rows in memory by their task's official metrics."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archqa.errors import CallerError, InputError, without_suppressed_causes
from archqa.runs.folder import RunFolder
from archqa.runs.record import RunStatus
from archqa.runs.run import Run
from archqa.safety.arguments import as_optional_path, as_path
from archqa.tasks import registry
from archqa.tasks.scoring import (
    ScoredRun,
    ScoreSettings,
    ScoringInputs,
    ScoringRequest,
    Submission,
    write_official_text,
)
from archqa.tasks.scoring.score_report import RowScorer, ScoreReport
from archqa.tasks.task import CompletedCase, EndedRun
from scoring import known_metrics, own_metrics
from scoring.tasks import archehr2025

if TYPE_CHECKING:
    from archqa.tasks.scoring.judging import Judge

_FIX = 'A submission is [{"case_id": "1", "answer": "... |2|"}]; each task has its own fields.'


def open_submission(path: Path, task: str | None = None) -> Submission:
    """The submission of a run folder or a file; `task` names the task where rows do not tell it.

    Raises `InputError` with all errors of shape, `CallerError` for a task that is unknown, ambiguous or not
    the run's.
    """
    if task is not None:
        registry.find(task)
    if path.is_dir():
        submission = _open_run(Run.open(path), task)
    else:
        submission = _open_file(path, task)
    errors = list(registry.find(submission.task).scoring().row_errors(submission.rows))
    if errors:
        raise InputError(path, [f": {error}" for error in errors])
    return submission


def _open_run(run: Run, task: str | None) -> Submission:
    run_task = run.manifest.task
    if task not in {None, run_task}:
        raise CallerError(
            f"{run.path} is a run of {run_task}, not of {task}.\nLeave --task out."
        )
    about = scored_run(run)
    bridge = registry.find(run_task).scoring()
    if not bridge.reads_submission_file:
        rows, content = bridge.rows_of_run(run.as_ended())
    elif run.manifest.status is RunStatus.FINISHED:
        file = _open_file(run.path / "submission.json", run_task)
        return file._replace(run=about)
    else:
        content = json.dumps(run.submission(), ensure_ascii=False).encode(
            "utf-8", "replace"
        )
        rows = json.loads(content)
    return Submission(
        run.path, run_task, rows, hashlib.sha256(content).hexdigest(), about
    )


def scored_run(run: Run) -> ScoredRun:
    """What scoring needs to know of a run; of one that is not finished, which cases have ended."""
    manifest = run.manifest
    ended_ids = manifest.case_ids
    if manifest.status is not RunStatus.FINISHED:
        ended_ids = tuple(record.id for record in run.iter_records())
    return ScoredRun(
        folder=run.path,
        task=manifest.task,
        pipeline=manifest.pipeline,
        data_path=Path(manifest.data.path),
        data_sha256=manifest.data.sha256,
        case_ids=manifest.case_ids,
        ended_ids=ended_ids,
        uses_engine=any(backend.digest for backend in manifest.backends.values()),
        record=manifest.settings.get("record"),
        ended=run.ended,
    )


def _open_file(path: Path, task: str | None) -> Submission:
    try:
        data = path.read_bytes()
    except OSError:
        raise InputError(
            path, [": cannot be read."], "Name a run folder or a submission.json."
        ) from None
    rows = _parse(path, data)
    if isinstance(rows, dict):
        candidates = (
            each.scoring().rows_from_object(rows) for each in registry.all_tasks()
        )
        rows = next((each for each in candidates if each is not None), None)
    if not isinstance(rows, list):
        raise InputError(path, [": is not a list."], _FIX)
    digest = hashlib.sha256(data).hexdigest()
    return Submission(path, task or _recognise(path, rows), rows, digest)


def _parse(path: Path, data: bytes) -> Any:
    """The JSON value of a file, or the list of its lines (`runs.jsonl`). NaN, which pandas writes, is null."""
    try:
        text = data.decode("utf-8-sig")
        lines = [line for line in text.split("\n") if line.strip()]
        for candidate in (text, f"[{','.join(lines)}]"):
            try:
                return json.loads(candidate, parse_constant=lambda _: None)
            except json.JSONDecodeError:
                continue
    except (ValueError, RecursionError):
        pass
    raise InputError(path, [": is not JSON."], _FIX)


def _recognise(path: Path, rows: list[Any]) -> str:
    """The task that rows of this shape belong to. Raises `CallerError` where several tasks have that shape."""
    fields: set[str] = set()
    for row in rows:
        if isinstance(row, dict):
            fields.update(row)
    candidates: list[str] = []
    for task in registry.all_tasks():
        if candidates and not registry.is_registered(task.name):
            break  # Plug-ins are asked only about what archqa does not recognise.
        if task.scoring().recognises_rows(rows, frozenset(fields)):
            candidates.append(task.name)
    if not candidates:
        return registry.default_task().name
    if len(candidates) > 1:
        raise CallerError(
            f"{path}: its predictions may be of {' or '.join(candidates)}.\nSay which with --task."
        )
    return candidates[0]


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
    path = (
        target.path
        if isinstance(target, Run)
        else as_path(target, "What is to be scored")
    )
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


def submitted_rows(
    task: str, completed: CompletedCase, case_ids: Sequence[str]
) -> list[Any]:
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
    disagreements = _save_judged(
        folder_path / "disagreements.jsonl", report.disagreements, request
    )
    unsupported = _save_judged(
        folder_path / "unsupported_lines.jsonl", report.unsupported_lines, request
    )
    return replace(
        report, disagreements_path=disagreements, unsupported_lines_path=unsupported
    )


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
