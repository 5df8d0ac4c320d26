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


def benchmark_files(rows: Sequence[Mapping[str, Any]], total: int) -> dict[str, Any]:
    """The files of an ungraded run of `total` tasks, by name; `error.jsonl` only where a conversation was lost."""
    finished = [row for row in rows if row["output"] is not None]
    lost = [row for row in rows if row["output"] is None]
    files: dict[str, Any] = {"runs.jsonl": finished, "overall.json": overall(rows, total)}
    return {**files, "error.jsonl": lost} if lost else files


def overall(
    rows: Sequence[Mapping[str, Any]], total: int, graded: "GradedRows | None" = None
) -> dict[str, Any]:
    """`overall.json` of `total` tasks; `custom`, the benchmark's grades, is empty until the run is scored."""
    finished = [row for row in rows if row["output"] is not None]
    outputs = [row["output"] for row in finished]
    return {
        "total": total,
        "validation": _validation(outputs),
        "custom": _custom(finished, total, graded),
    }


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


def _custom(
    rows: Sequence[Mapping[str, Any]], total: int, graded: "GradedRows | None"
) -> dict[str, Any]:
    if graded is None:
        return {}
    right = {row["task_id"]: row["correct"] for row in graded.rows}
    raw = [_judged(row["output"], right.get(row["task_id"])) for row in rows]
    idle = {
        name: sum(row["correct"] for row in own) / (total or 1)
        for name, own in graded.do_nothing_rows.items()
    }
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
