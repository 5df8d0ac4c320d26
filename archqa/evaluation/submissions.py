"""Opens what is to be scored: a run's answers or a bare file. Its rows tell the task.

Messages quote nothing of a row but ids: submissions contain record text.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from archqa.errors import CallerError, InputError
from archqa.runs.record import RunStatus
from archqa.runs.run import Run
from archqa.tasks import registry
from archqa.tasks.scoring import ScoredRun, Submission

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
        raise CallerError(f"{run.path} is a run of {run_task}, not of {task}.\nLeave --task out.")
    about = scored_run(run)
    bridge = registry.find(run_task).scoring()
    if not bridge.reads_submission_file:
        rows, content = bridge.rows_of_run(run.as_ended())
    elif run.manifest.status is RunStatus.FINISHED:
        file = _open_file(run.path / "submission.json", run_task)
        return file._replace(run=about)
    else:
        content = json.dumps(run.submission(), ensure_ascii=False).encode("utf-8", "replace")
        rows = json.loads(content)
    return Submission(run.path, run_task, rows, hashlib.sha256(content).hexdigest(), about)


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
        backends=manifest.backends,
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
        candidates = (each.scoring().rows_from_object(rows) for each in registry.all_tasks())
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
