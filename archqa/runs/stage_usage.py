"""What each stage of a run cost: calls, tokens, dollars and latency, by agent and model, read from the traces."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from archqa.core.usage import Usage, sum_usage
from archqa.runs.run import Run


class StageUsage(NamedTuple):
    """One agent with one model. `p50` and `p95` are seconds for a call that was made; None if none was."""

    agent: str
    model: str
    usage: Usage
    rejected: int
    p50: float | None
    p95: float | None


def stage_usage(run: Run) -> list[StageUsage]:
    """Every stage a model performed, in the order in which they were first asked."""
    calls: dict[tuple[str, str], list[Usage]] = defaultdict(list)
    rejected: dict[tuple[str, str], int] = defaultdict(int)
    for step in _steps(run):
        stage = (step["agent"], step["model"])
        calls[stage].append(Usage.model_validate(step["usage"]))
        rejected[stage] += bool(step["rejected"])
    return [_stage(stage, usages, rejected[stage]) for stage, usages in calls.items()]


def _stage(stage: tuple[str, str], usages: list[Usage], rejected: int) -> StageUsage:
    seconds = sorted(usage.seconds for usage in usages if usage.calls)
    return StageUsage(
        *stage, sum_usage(usages), rejected, _quantile(seconds, 0.5), _quantile(seconds, 0.95)
    )


def _quantile(ordered: list[float], share: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def _steps(run: Run) -> Iterator[dict[str, Any]]:
    """The steps that models performed, as plain JSON: a long run has hundreds of thousands."""
    for path in sorted((run.path / "trace").glob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            steps = (json.loads(line) for line in file if line.endswith("\n"))
            yield from (step for step in steps if step["mind"] == "model")
