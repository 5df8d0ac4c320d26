"""A MedAgentBench run in the benchmark's own files: `runs.jsonl`, `error.jsonl` and `overall.json`.

Source: `src/assigner.py` and `src/server/tasks/medagentbench` of stanfordmlgroup/MedAgentBench.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archqa.tasks.medagentbench.scoring.grading import GradedRows

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

Row = Mapping[str, Any]


def benchmark_files(rows: Sequence[Row], total: int) -> dict[str, Any]:
    """The files of an ungraded run of `total` tasks, by name.

    `error.jsonl` is among them only if a conversation was lost.
    """
    files: dict[str, Any] = {"runs.jsonl": _finished(rows), "overall.json": overall(rows, total)}
    lost = [row for row in rows if row["output"] is None]
    if lost:
        files["error.jsonl"] = lost
    return files


def overall(rows: Sequence[Row], total: int, graded: "GradedRows | None" = None) -> dict[str, Any]:
    """`overall.json` of `total` tasks.

    `custom`, the benchmark's grades, is empty until the run is scored.
    """
    finished = _finished(rows)
    custom: dict[str, Any] = {}
    if graded:
        custom = _grades(finished, total, graded)
    return {"total": total, "validation": _validation(finished), "custom": custom}


def _finished(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["output"] is not None]


def _validation(finished: Sequence[Row]) -> dict[str, float]:
    """Shares of the statuses, and lengths of the conversations in turns."""
    statuses: Counter[str] = Counter()
    lengths = []
    for row in finished:
        output = row["output"]
        statuses[output["status"]] += 1
        lengths.append(len(output["history"]))
    count = len(finished) or 1
    validation = {status: statuses[status] / count for status in STATUSES}
    validation["average_history_length"] = sum(lengths) / count
    validation["max_history_length"] = max(lengths, default=0)
    validation["min_history_length"] = min(lengths, default=0)
    return validation


def _grades(rows: Sequence[Row], total: int, graded: "GradedRows") -> dict[str, Any]:
    correct = {row["task_id"]: row["correct"] for row in graded.rows}
    raw_results = []
    for row in rows:
        is_correct = correct.get(row["task_id"])
        raw_results.append(_with_verdict(row["output"], is_correct))
    do_nothing_rates = {}
    for reply, reply_rows in graded.do_nothing_rows.items():
        do_nothing_rates[reply] = _rate(reply_rows, "correct", total)
    return {
        "success rate": _rate(graded.rows, "correct", total),
        "raw_results": raw_results,
        "clinical success rate": _rate(graded.rows, "clinical_correct", total),
        "do-nothing success rates": do_nothing_rates,
    }


def _rate(rows: Sequence[Row], verdict: str, total: int) -> float:
    successes: int = sum(row[verdict] for row in rows)
    return successes / (total or 1)


def _with_verdict(output: Row, is_correct: bool | None) -> dict[str, Any]:
    """The benchmark appends its verdict to the status of a conversation with a result."""
    if output["result"] is None or is_correct is None:
        return dict(output)
    verdict = "Correct" if is_correct else "Incorrect"
    return {**output, "status": f"{output['status']}{verdict}"}
