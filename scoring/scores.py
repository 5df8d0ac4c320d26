"""What scoring gives back: every number with its signature, its interval and what could not be computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import ScoringError
from .metric import AggregateMetric, FloatArray, Metric, MetricMean, parse_metric
from .resampling import (
    Comparison,
    Interval,
    approximate_randomisation,
    bootstrap_interval,
    paired_bootstrap,
)

_PAIRED_TESTS: dict[str, Callable[[AggregateMetric, FloatArray, FloatArray], Comparison]] = {
    "paired-bootstrap": paired_bootstrap,
    "approximate-randomisation": approximate_randomisation,
}


@dataclass(frozen=True)
class Scores:
    """The scores of one submission against one key.

    `scores`, `intervals` (95 %, over resampled cases) and `signatures` go by the leaderboard's names; `missing` says
    of each absent score what to install. `per_case` holds the same numbers case by case; `tallies` what paired tests
    need; `tables` the break-downs (`by_task`, …), row → name → value; `disagreements` the rows on which judges
    disagreed.
    """

    task: str
    cases: int
    scores: dict[str, float] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    per_case: dict[str, dict[str, float]] = field(default_factory=dict)
    tables: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    tallies: dict[str, FloatArray] = field(default_factory=dict, repr=False, compare=False)
    disagreements: list[dict[str, Any]] = field(default_factory=list, repr=False)

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa score --json` prints; break-downs stand among the scores under their own names."""
        return {
            "task": self.task,
            "scores": {**self.scores, **self.tables},
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
            "signatures": self.signatures,
            "missing": self.missing,
            "warnings": self.warnings,
            "cases": self.cases,
        }

    def lines(self) -> Iterator[str]:
        """One line a score, as it should be quoted: signature = value [low, high] (n=cases)."""
        for name, value in self.scores.items():
            interval = ""
            if name in self.intervals:
                low, high = self.intervals[name]
                interval = f" [{low:.2f}, {high:.2f}]"
            yield f"{self.signatures.get(name, name)} = {value:.2f}{interval} (n={self.cases})"


def add_metric(name: str, metric: Metric[Any], cases: Mapping[str, Any], into: Scores) -> None:
    """Score `cases` (case id → what the metric tallies) and write everything about it into `into` under `name`.

    A metric that cannot run here goes to `missing` with its reason.
    """
    if reason := metric.availability():
        into.missing[name] = reason
        return
    record(name, metric, list(cases), metric.tallies(list(cases.values())), into)


def record(
    name: str, metric: AggregateMetric, case_ids: Sequence[str], tallies: FloatArray, into: Scores
) -> None:
    """Write the score, interval, signature and single cases of one metric, from its tallies, into `into`."""
    into.scores[name] = float(metric.value(tallies.sum(axis=0)))
    into.signatures[name] = str(metric)
    into.tallies[name] = tallies
    if interval := bootstrap_interval(metric, tallies):
        into.intervals[name] = (interval.low, interval.high)
    for case_id, value in zip(case_ids, metric.value(tallies), strict=True):
        into.per_case.setdefault(case_id, {})[name] = float(value)


def add_mean_score(name: str, parts: Sequence[str], into: Scores) -> None:
    """Write the mean of `parts` under `name`, or into `missing` which of them are not there."""
    if absent := [part for part in parts if part not in into.scores]:
        into.missing[name] = (
            f"needs {', '.join(absent)}; a mean without them is not the official score."
        )
        return
    metrics = tuple(parse_metric(into.signatures[part]) for part in parts)
    metric = metrics[0] if len(metrics) == 1 else MetricMean(metrics)
    record(
        name, metric, list(into.per_case), np.hstack([into.tallies[part] for part in parts]), into
    )


def compare(
    run_a: Scores, run_b: Scores, method: str = "paired-bootstrap"
) -> dict[str, Comparison]:
    """A paired test (`paired-bootstrap` or `approximate-randomisation`) for every score that two runs share.

    Raises ScoringError when the runs were not scored on the same cases, or the method is unknown.
    """
    test = _PAIRED_TESTS.get(method)
    if test is None:
        raise ScoringError(
            f"{method!r} is no paired test; choose one of {', '.join(_PAIRED_TESTS)}."
        )
    _check_same_cases(run_a, run_b)
    rows_of_b = {case_id: row for row, case_id in enumerate(run_b.per_case)}
    order = [rows_of_b[case_id] for case_id in run_a.per_case]
    comparisons = {}
    for name, tallies in run_a.tallies.items():
        signature = run_a.signatures[name]
        if run_b.signatures.get(name) == signature:
            metric = parse_metric(signature)
            comparisons[name] = test(metric, tallies, run_b.tallies[name][order])
    return comparisons


def _check_same_cases(run_a: Scores, run_b: Scores) -> None:
    if run_a.task == run_b.task and set(run_a.per_case) == set(run_b.per_case):
        return
    different = sorted(set(run_a.per_case) ^ set(run_b.per_case))
    raise ScoringError(
        f"runs of {run_a.task} and {run_b.task} do not cover the same cases {different}; "
        "use one key for both."
    )


__all__ = ["Comparison", "Interval", "Scores", "add_mean_score", "add_metric", "compare", "record"]
