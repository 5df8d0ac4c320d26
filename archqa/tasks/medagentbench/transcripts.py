"""The conversations of a MedAgentBench run as lines of the benchmark's `runs.jsonl`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from archqa.core.result import TaskResult
from archqa.tasks.medagentbench.result import ConversationResult
from archqa.tasks.task import CompletedCase


def transcript_rows(
    completed_tasks: Iterable[CompletedCase], task_ids: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """One line for each completed task, in the benchmark's shape; `task_id` is archqa's addition.

    `index` is the position of the task among `task_ids`, -1 if it is not there. `output` is None
    without a conversation.
    """
    positions = {task_id: position for position, task_id in enumerate(task_ids)}
    for completed in completed_tasks:
        index = positions.get(completed.item.id, -1)
        yield _row(completed, index)


def _row(completed: CompletedCase, index: int) -> dict[str, Any]:
    output = _output(completed.result, index)
    row = {
        "index": index,
        "task_id": completed.item.id,
        "error": None,
        "info": None,
        "output": output,
        "time": {"seconds": round(completed.usage.seconds, 3)},
    }
    if output is None:
        error_type = completed.error.partition(":")[0]
        row.update(error=error_type or "unknown", info=completed.error)
    return row


def _output(result: TaskResult | None, index: int) -> dict[str, Any] | None:
    if not isinstance(result, ConversationResult) or not result.status:
        return None
    return {
        "index": index,
        "status": result.status,
        "result": result.result,
        "history": list(result.history),
    }
