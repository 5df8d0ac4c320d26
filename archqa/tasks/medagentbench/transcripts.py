"""The conversations of a MedAgentBench run as lines of the benchmark's `runs.jsonl`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from archqa.core.result import TaskResult
from archqa.tasks.medagentbench.result import ConversationResult
from archqa.tasks.task import CompletedCase


def transcript_rows(
    ended_tasks: Iterable[CompletedCase], task_ids: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """One line a task that ended, in the benchmark's shape (`task_id` is ours); `output` is None without one.

    `index` is the position of the task among `task_ids`.
    """
    positions = {task_id: position for position, task_id in enumerate(task_ids)}
    for ended in ended_tasks:
        yield _row(ended, positions)


def _row(ended: CompletedCase, positions: Mapping[str, int]) -> dict[str, Any]:
    index = positions.get(ended.item.id, -1)
    output = _output(ended.result)
    return {
        "index": index,
        "task_id": ended.item.id,
        "error": None if output else ended.error.partition(":")[0] or "unknown",
        "info": None if output else ended.error,
        "output": {"index": index, **output} if output else None,
        "time": {"seconds": round(ended.usage.seconds, 3)},
    }


def _output(result: TaskResult | None) -> dict[str, Any] | None:
    """The benchmark's part of a conversation; None where the task ended without one."""
    if not isinstance(result, ConversationResult) or not result.status:
        return None
    return {"status": result.status, "result": result.result, "history": list(result.history)}
