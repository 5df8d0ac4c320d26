"""What is handed in to be scored: a run's answers or a bare file, its task told by its rows, its shape checked.

Nothing here quotes what stands in a row beyond ids: submissions hold record text.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from archqa import tasks
from archqa.errors import CallerError, InputError
from archqa.runs.run import Run
from archqa.tasks.files.mistakes import printable

_FIX = 'A submission is [{"case_id": "1", "answer": "... |2|"}]; each task has its own fields.'
_MED_ID = re.compile(r"task[0-9]+_[0-9]+")
_NO_CONVERSATION = (
    "These MedAgentBench results are answers without the conversations that led to them, which is what is graded.\n"
    "Name the run folder, or its runs.jsonl."
)


class Submission(NamedTuple):
    """Rows to be scored. `sha256` is of the file's bytes; `run` is None for a bare file."""

    path: Path
    task: str
    rows: list[Any]
    sha256: str
    run: Run | None = None

    @property
    def folder(self) -> Path:
        """Where files about it belong: the run's folder, or the one the file lies in."""
        return self.run.path if self.run else self.path.parent


def open_submission(path: Path, task: str | None = None) -> Submission:
    """What a run folder or a file hands in; `task` names the task where rows do not tell it.

    Raises `InputError` with all mistakes of shape, `CallerError` for a task that is unknown, untold or not the run's.
    """
    if task is not None:
        tasks.find(task)
    submission = _of_run(Run.open(path), task) if path.is_dir() else _of_file(path, task)
    if mistakes := list(_mistakes(submission)):
        raise InputError(path, [f": {mistake}" for mistake in mistakes])
    return submission


def _of_run(run: Run, task: str | None) -> Submission:
    if task not in {None, run.manifest.task}:
        raise CallerError(
            f"{run.path} is a run of {run.manifest.task}, not of {task}.\nLeave --task out."
        )
    if run.manifest.task == "archehr-2025":
        rows = run.submission()
        written = json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
        return Submission(
            run.path,
            run.manifest.task,
            rows,
            _sha256(written.encode("utf-8", "surrogatepass")),
            run,
        )
    if run.manifest.task == "medagentbench":
        lines = [
            json.dumps(row, ensure_ascii=False)
            for row in tasks.MEDAGENTBENCH.transcripts(run.as_ended())
        ]
        rows = [json.loads(line) for line in lines]
        return Submission(
            run.path,
            run.manifest.task,
            rows,
            _sha256("\n".join(lines).encode("utf-8", "replace")),
            run,
        )
    return _of_file(run.path / "submission.json", run.manifest.task)._replace(run=run)


def _of_file(path: Path, task: str | None) -> Submission:
    try:
        data = path.read_bytes()
    except OSError:
        raise InputError(
            path, [": cannot be read."], "Name a run folder or a submission.json."
        ) from None
    rows = _rows(path, data)
    return Submission(path, task or _recognised(path, rows), rows, _sha256(data))


def _rows(path: Path, data: bytes) -> list[Any]:
    content = _parsed(path, data)
    if isinstance(content, dict) and content and all(map(_MED_ID.fullmatch, content)):
        return [{"task_id": task_id, "result": result} for task_id, result in content.items()]
    if isinstance(content, dict) and {"index", "output"} <= content.keys():
        return [content]  # A runs.jsonl of one line.
    if not isinstance(content, list):
        raise InputError(path, [": is not a list."], _FIX)
    return content


def _parsed(path: Path, data: bytes) -> Any:
    """The JSON value of a file, or the list of its lines (`runs.jsonl`). NaN, which pandas writes, is nothing."""
    try:
        text = data.decode("utf-8-sig")
        for candidate in (
            text,
            "[" + ",".join(line for line in text.split("\n") if line.strip()) + "]",
        ):
            try:
                return json.loads(candidate, parse_constant=lambda _: None)
            except json.JSONDecodeError:
                continue
    except (ValueError, RecursionError):
        pass
    raise InputError(path, [": is not JSON."], _FIX)


def _recognised(path: Path, rows: list[Any]) -> str:
    """The task that rows of this shape belong to. Raises `CallerError` where several have that shape."""
    fields = {name for row in rows if isinstance(row, dict) for name in row}
    if "question_id" in fields:
        return "fhir-agentbench"
    if "task_id" in fields or {"index", "output"} <= fields:
        return "medagentbench"
    if "prediction" in fields:
        return _subtask(path, [row.get("prediction") for row in rows if isinstance(row, dict)])
    return "archehr-2025"


def _subtask(path: Path, predictions: list[Any]) -> str:
    inside = [
        type(one)
        for prediction in predictions
        if isinstance(prediction, list)
        for one in prediction
    ]
    if inside:
        return "archehr-2026-st4" if dict in inside else "archehr-2026-st2"
    texts = any(isinstance(prediction, str) for prediction in predictions)
    some = (
        "archehr-2026-st1 or archehr-2026-st3" if texts else "archehr-2026-st2 or archehr-2026-st4"
    )
    raise CallerError(f"{path}: its predictions may be of {some}.\nSay which with --task.")


def _mistakes(submission: Submission) -> Iterator[str]:
    """What is wrong with the shape of rows, where the ruler itself would not say it, or would quote the row."""
    check = {
        "archehr-2026-st4": _link_mistakes,
        "fhir-agentbench": _record_mistakes,
        "medagentbench": _grade_mistakes,
    }
    if submission.task in check:
        yield from check[submission.task](submission.rows)


def _link_mistakes(rows: list[Any]) -> Iterator[str]:
    for at, row in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get("prediction"), list):
            yield f'row {at}: write {{"case_id": "1", "prediction": [{{"answer_id": "1", "evidence_id": ["2"]}}]}}.'
            continue
        for nth, link in enumerate(row["prediction"]):
            if not _is_link(link):
                case = printable(str(row.get("case_id")))
                yield f'case {case}: link {nth} should read {{"answer_id": "1", "evidence_id": ["2", "5"]}}.'


def _is_link(link: Any) -> bool:
    return (
        isinstance(link, dict)
        and isinstance(link.get("answer_id"), str)
        and _are_ids(link.get("evidence_id"))
    )


def _record_mistakes(rows: list[Any]) -> Iterator[str]:
    for at, row in enumerate(rows):
        if not isinstance(row, dict) or not _is_id(row.get("question_id")):
            yield f"record {at}: no question_id."
            continue
        for name in ("agent_fhir_resources", "cited_fhir_resources"):
            if not _are_resources(row.get(name)):
                yield f'question {printable(str(row["question_id"]))}: {name} must read {{"Observation": ["id", "id"]}}.'
    yield from _twice(rows, "question_id", "answered")


def _grade_mistakes(rows: list[Any]) -> Iterator[str]:
    if all(isinstance(row, dict) and "output" in row for row in rows):
        return
    if not any(isinstance(row, dict) and "correct" in row for row in rows):
        raise CallerError(_NO_CONVERSATION)
    for at, row in enumerate(rows):
        if not isinstance(row, dict) or not _MED_ID.fullmatch(str(row.get("task_id"))):
            yield f"row {at}: no task_id like task3_12."
            continue
        for name, absent in (("correct", None), ("clinical_correct", False)):
            if not isinstance(row.get(name, absent), bool):
                yield f"{row['task_id']}: {name} must be true or false."
    yield from _twice(rows, "task_id", "graded")


def _twice(rows: list[Any], name: str, done: str) -> Iterator[str]:
    times = Counter(
        str(row[name]) for row in rows if isinstance(row, dict) and _is_id(row.get(name))
    )
    yield from (
        f"{name} {printable(one)}: {done} {count} times; keep one."
        for one, count in times.items()
        if count > 1
    )


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _are_resources(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(map(_are_ids, value.values())))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
