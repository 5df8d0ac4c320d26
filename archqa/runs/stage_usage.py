"""The cost of each stage of a run by agent and model: calls, tokens, dollars, latency."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from archqa.core.usage import Usage, sum_usage
from archqa.runs.folder import damaged_trace
from archqa.runs.run import Run


class StageUsage(NamedTuple):
    """One agent with one model.

    `p50` and `p95` are seconds of an uncached call; None if there was none.
    """

    agent: str
    model: str
    usage: Usage
    rejected: int
    p50: float | None
    p95: float | None


def stage_usage(run: Run) -> list[StageUsage]:
    """Return the usage of every agent and model, in the order of their earliest call.

    Raises `InputError` for a damaged trace.
    """
    usages: dict[tuple[str, str], list[Usage]] = defaultdict(list)
    rejected: Counter[tuple[str, str]] = Counter()
    for path in sorted((run.path / "trace").glob("*.jsonl")):
        try:
            for step in _model_steps(path):
                agent, model = step["agent"], step["model"]
                if not (isinstance(agent, str) and isinstance(model, str)):
                    raise TypeError
                usages[agent, model].append(Usage.model_validate(step["usage"]))
                rejected[agent, model] += bool(step["rejected"])
        except (
            OSError,
            ValueError,
            RecursionError,
            KeyError,
            TypeError,
            AttributeError,
        ):
            raise damaged_trace(path) from None
    stages = []
    for (agent, model), stage_usages in usages.items():
        seconds = sorted(usage.seconds for usage in stage_usages if usage.calls)
        stages.append(
            StageUsage(
                agent,
                model,
                sum_usage(stage_usages),
                rejected[agent, model],
                p50=_quantile(seconds, 0.5),
                p95=_quantile(seconds, 0.95),
            )
        )
    return stages


def _model_steps(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the steps of a trace that models ran.

    They are read as plain JSON: a long run has hundreds of thousands.
    """
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                continue  # The line was cut short by a kill.
            step = json.loads(line)
            if step.get("backend") == "model":
                yield step


def _quantile(ascending: list[float], share: float) -> float | None:
    if not ascending:
        return None
    last = len(ascending) - 1
    return ascending[min(int(share * len(ascending)), last)]
