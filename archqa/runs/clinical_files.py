"""A MedAgentBench run in the benchmark's own files: `runs.jsonl`, `error.jsonl` and `overall.json`.

Source: `src/assigner.py` and `src/server/tasks/medagentbench` of stanfordmlgroup/MedAgentBench.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from archqa.errors import ArchqaError, CallerError
from archqa.fhir import Mode
from archqa.runs.clinical_grading import Graded, grade_rows, open_lookup, tasks_in
from archqa.runs.clinical_rows import run_rows
from archqa.runs.run import Run
from archqa.settings import Settings

TASK = "medagentbench"
STATUSES = (
    "running",
    "completed",
    "agent context limit",
    "agent validation failed",
    "agent invalid action",
    "task limit reached",
    "unknown",
    "task error",
)
"""How a conversation may end, in the benchmark's words."""


def leave_clinical_files(run: Run) -> None:
    """Write the benchmark's files into the run's folder; graded on the spot where tasks and record can be read."""
    if run.manifest.task != TASK:
        return
    rows = list(run_rows(run))
    finished = [row for row in rows if row["output"] is not None]
    run.folder.write_lines("runs.jsonl", (json.dumps(row, ensure_ascii=False) for row in finished))
    lost = [row for row in rows if row["output"] is None]
    if lost:
        run.folder.write_lines("error.jsonl", (json.dumps(row, ensure_ascii=False) for row in lost))
    run.folder.write_json("overall.json", _overall(finished, len(run.manifest.case_ids), _graded(run, rows)))


def check_writes(settings: Settings, *, confirmed: bool) -> None:
    """Raise `CallerError` for writes that nobody could answer for: on a cluster there is no audit log and no person."""
    if settings.runner == "ray" and (confirmed or settings.writes is Mode.APPLY):
        raise CallerError("On a cluster nothing is written to a record.\nRun it here, or leave writes=apply away.")


def _graded(run: Run, rows: Sequence[Mapping[str, Any]]) -> Graded | None:
    """The grades, where the record and the tasks with their answers are still at hand."""
    record = run.manifest.settings.get("record")
    try:
        tasks = [task for task in tasks_in(Path(run.manifest.data.path)) if task.id in run.manifest.case_ids]
        with open_lookup(record) as lookup:
            return grade_rows(rows, tasks, lookup)
    except ArchqaError:
        return None


def _overall(rows: Sequence[Mapping[str, Any]], total: int, graded: Graded | None) -> dict[str, Any]:
    outputs = [row["output"] for row in rows]
    return {"total": total, "validation": _validation(outputs), "custom": _custom(rows, total, graded)}


def _validation(outputs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    counts = Counter(each["status"] for each in outputs)
    lengths = [len(each["history"]) for each in outputs]
    many = len(outputs) or 1
    return {
        **{status: counts[status] / many for status in STATUSES},
        "average_history_length": sum(lengths) / many,
        "max_history_length": max(lengths, default=0),
        "min_history_length": min(lengths, default=0),
    }


def _custom(rows: Sequence[Mapping[str, Any]], total: int, graded: Graded | None) -> dict[str, Any]:
    if graded is None:
        return {}
    right = {row["task_id"]: row["correct"] for row in graded.rows}
    raw = [_judged(row["output"], right.get(row["task_id"])) for row in rows]
    idle = {name: sum(row["correct"] for row in own) / (total or 1) for name, own in graded.idle.items()}
    return {
        "success rate": sum(right.values()) / (total or 1),
        "raw_results": raw,
        "clinical success rate": sum(row["clinical_correct"] for row in graded.rows) / (total or 1),
        "do-nothing success rates": idle,
    }


def _judged(output: Mapping[str, Any], right: bool | None) -> dict[str, Any]:
    """The benchmark appends its verdict to the status of what came to a result."""
    if output["result"] is None or right is None:
        return dict(output)
    return {**output, "status": f"{output['status']}{'Correct' if right else 'Incorrect'}"}
