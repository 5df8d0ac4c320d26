"""The conversations of a MedAgentBench run as lines of the benchmark's `runs.jsonl`."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from archqa import benchmarks
from archqa.benchmarks import Ended
from archqa.errors import ArchqaError
from archqa.runs.run import Run

TASK = "medagentbench"


def run_rows(run: Run) -> Iterator[dict[str, Any]]:
    """One line a task that ended, in the benchmark's shape (`task_id` is ours); `output` is None without one."""
    places = _places(run)
    for ended in run.ended():
        yield _row(ended, places)


def _row(ended: Ended, places: Mapping[str, int]) -> dict[str, Any]:
    index = places.get(ended.item.id, -1)
    found = ended.result
    output = {name: found[name] for name in ("status", "result", "history")} if "status" in found else None
    return {
        "index": index,
        "task_id": ended.item.id,
        "error": None if output else ended.error.partition(":")[0] or "unknown",
        "info": None if output else ended.error,
        "output": {"index": index, **output} if output else None,
        "time": {"seconds": round(ended.usage.seconds, 3)},
    }


def _places(run: Run) -> dict[str, int]:
    """Where each task stands in its file; among the tasks of the run where that file is gone or another."""
    path = Path(run.manifest.data.path)
    try:
        file = benchmarks.load_cases(path, TASK)
        ids: Sequence[str] = file.ids if file.sha256 == run.manifest.data.sha256 else run.manifest.case_ids
    except ArchqaError:
        ids = run.manifest.case_ids
    return {task_id: place for place, task_id in enumerate(ids)}
