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
    """Return the usage of every agent and model, in the order of their earliest call."""
    usages: dict[tuple[str, str], list[Usage]] = defaultdict(list)
    rejected: Counter[tuple[str, str]] = Counter()
    for step in _model_steps(run):
        stage = (step.agent, step.model)
        usages[stage].append(step.usage)
        if step.rejected:
            rejected[stage] += 1
    summaries = []
    for stage, stage_usages in usages.items():
        summaries.append(_summary(stage, stage_usages, rejected[stage]))
    return summaries


def _summary(stage: tuple[str, str], usages: list[Usage], rejected: int) -> StageUsage:
    seconds = sorted(usage.seconds for usage in usages if usage.calls)
    agent, model = stage
    return StageUsage(
        agent,
        model,
        sum_usage(usages),
        rejected,
        p50=_quantile(seconds, 0.5),
        p95=_quantile(seconds, 0.95),
    )


def _quantile(ascending: list[float], share: float) -> float | None:
    if not ascending:
        return None
    position = int(share * len(ascending))
    last = len(ascending) - 1
    return ascending[min(position, last)]


class _ModelStep(NamedTuple):
    """What the usage needs of a step."""

    agent: str
    model: str
    usage: Usage
    rejected: bool


def _model_steps(run: Run) -> Iterator[_ModelStep]:
    """Yield the steps that models ran. Raises `InputError` for a damaged trace."""
    for path in sorted((run.path / "trace").glob("*.jsonl")):
        try:
            yield from _steps_of(path)
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
            raise damaged_trace(path) from None


def _steps_of(path: Path) -> Iterator[_ModelStep]:
    """Yield the steps of a file from plain JSON: a long run has hundreds of thousands."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                continue  # The line was cut short by a kill.
            step = json.loads(line)
            if step.get("backend") == "model":
                yield _model_step(step)


def _model_step(step: dict[str, Any]) -> _ModelStep:
    agent, model = step["agent"], step["model"]
    if not (isinstance(agent, str) and isinstance(model, str)):
        raise TypeError
    return _ModelStep(agent, model, Usage.model_validate(step["usage"]), bool(step["rejected"]))
