"""What scoring gives back: every number with its signature, its interval and what could not be computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


@dataclass(frozen=True)
class Scores:
    """The scores of one submission against one key.

    `scores`, `intervals` (95 %, over resampled cases) and `signatures` go by the leaderboard's names; `missing` says
    of each absent score what to install. `per_case` holds the same numbers case by case; `tallies` what paired tests
    need; `tables` the break-downs (`by_task`, …), row → name → value; `disagreements` the rows on which judges were
    not of one mind.
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
            interval = self.intervals.get(name)
            sure = f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else ""
            yield f"{self.signatures.get(name, name)} = {value:.2f}{sure} (n={self.cases})"


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
    first: Scores, second: Scores, method: str = "paired-bootstrap"
) -> dict[str, Comparison]:
    """A paired test (`paired-bootstrap` or `approximate-randomisation`) for every score that two runs share.

    Raises ScoringError when the runs were not scored on the same cases, or the method is unknown.
    """
    tests = {
        "paired-bootstrap": paired_bootstrap,
        "approximate-randomisation": approximate_randomisation,
    }
    if method not in tests:
        raise ScoringError(f"{method!r} is no paired test; choose one of {', '.join(tests)}.")
    if first.task != second.task or set(first.per_case) != set(second.per_case):
        apart = sorted(set(first.per_case) ^ set(second.per_case))
        raise ScoringError(
            f"runs of {first.task} and {second.task} do not cover the same cases {apart}; use one key for both."
        )
    places = {case_id: place for place, case_id in enumerate(second.per_case)}
    order = [places[case_id] for case_id in first.per_case]
    return {
        name: tests[method](
            parse_metric(first.signatures[name]), first.tallies[name], second.tallies[name][order]
        )
        for name in first.tallies
        if second.signatures.get(name) == first.signatures[name]
    }


__all__ = ["Comparison", "Interval", "Scores", "add_mean_score", "add_metric", "compare", "record"]
