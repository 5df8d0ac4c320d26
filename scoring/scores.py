"""The result of scoring: scores with signatures and intervals, and what could not be computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import ScoringError
from .id_lists import list_ids
from .metric import AggregateMetric, FloatArray, Metric, MetricMean, parse_metric
from .paired import METHODS, RESAMPLES, PairedDifference, PairedTallies, paired_differences
from .resampling import Interval, bootstrap_interval


@dataclass(frozen=True)
class Scores:
    """The scores of one submission against one key.

    The keys of `scores`, `intervals` (95 %, over resampled cases) and `signatures` are the
    leaderboard's names; `missing` tells what to install for an absent score. `per_case` has the
    scores of every case, `tallies` the input of paired tests, `tables` the breakdowns (`by_task`,
    …) as row → name → value, `disagreements` the replies on which the judge's votes were split.
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
        """The object that `archqa score --json` prints; `scores` includes the breakdowns."""
        intervals = {name: list(interval) for name, interval in self.intervals.items()}
        return {
            "task": self.task,
            "scores": {**self.scores, **self.tables},
            "intervals": intervals,
            "signatures": self.signatures,
            "missing": self.missing,
            "warnings": self.warnings,
            "cases": self.cases,
        }

    def lines(self) -> Iterator[str]:
        """One line per score, in the form to quote: signature = value [low, high] (n=cases)."""
        for name, value in self.scores.items():
            signature = self.signatures.get(name, name)
            interval = ""
            if name in self.intervals:
                low, high = self.intervals[name]
                interval = f" [{low:.2f}, {high:.2f}]"
            yield f"{signature} = {value:.2f}{interval} (n={self.cases})"


def add_metric(
    name: str,
    metric: Metric[Any],
    cases: Mapping[str, Any],
    into: Scores,
) -> None:
    """Score `cases` (case id → the metric's input) and write the results into `into` as `name`.

    A metric that cannot run here is added to `missing` with the reason.
    """
    reason = metric.availability()
    if reason:
        into.missing[name] = reason
        return
    tallies = metric.tallies(list(cases.values()))
    record(name, metric, list(cases), tallies, into)


def record(
    name: str,
    metric: AggregateMetric,
    case_ids: Sequence[str],
    tallies: FloatArray,
    into: Scores,
) -> None:
    """Write a metric's score, interval, signature and scores per case, from its tallies."""
    total = tallies.sum(axis=0)
    into.scores[name] = float(metric.value(total))
    into.signatures[name] = str(metric)
    into.tallies[name] = tallies
    interval = bootstrap_interval(metric, tallies)
    if interval:
        into.intervals[name] = (interval.low, interval.high)
    for case_id, value in zip(case_ids, metric.value(tallies), strict=True):
        case_scores = into.per_case.setdefault(case_id, {})
        case_scores[name] = float(value)


def add_mean_score(name: str, parts: Sequence[str], into: Scores) -> None:
    """Write the mean of `parts` as `name`; if parts are absent, add it to `missing` instead."""
    absent = [part for part in parts if part not in into.scores]
    if absent:
        reason = "a mean without them is not the official score."
        into.missing[name] = f"needs {', '.join(absent)}; {reason}"
        return
    metrics = tuple(parse_metric(into.signatures[part]) for part in parts)
    metric = metrics[0] if len(metrics) == 1 else MetricMean(metrics)
    tallies = np.hstack([into.tallies[part] for part in parts])
    record(name, metric, list(into.per_case), tallies, into)


def compare(
    run_a: Scores,
    run_b: Scores,
    method: str = METHODS[0],
    resamples: int = RESAMPLES,
    seed: int = 12345,
) -> dict[str, PairedDifference]:
    """A paired test for every score that two runs share, adjusted for all of them together.

    Raises ScoringError when the runs were not scored on the same cases, share no score, or the
    method is unknown.
    """
    _check_same_cases(run_a, run_b)
    order = _matching_rows(run_a, run_b)
    paired = {}
    for name, tallies in run_a.tallies.items():
        signature = run_a.signatures[name]
        if run_b.signatures.get(name) == signature:
            tallies_b = run_b.tallies[name][order]
            paired[name] = PairedTallies(parse_metric(signature), tallies, tallies_b)
    if not paired:
        raise ScoringError("the runs share no score; score both with the same settings.")
    return paired_differences(paired, method, resamples, seed)


def _matching_rows(run_a: Scores, run_b: Scores) -> list[int]:
    """For every row of `run_a`, the row of the same case in `run_b`."""
    rows_of_b = {case_id: row for row, case_id in enumerate(run_b.per_case)}
    return [rows_of_b[case_id] for case_id in run_a.per_case]


def _check_same_cases(run_a: Scores, run_b: Scores) -> None:
    if run_a.task != run_b.task:
        raise ScoringError(
            f"the runs are of different tasks, {run_a.task} and {run_b.task}; compare runs of one."
        )
    different = sorted(run_a.per_case.keys() ^ run_b.per_case.keys())
    if different:
        count = f"{len(different)} cases are in only one of them"
        raise ScoringError(
            f"the runs do not cover the same cases; {count}: {list_ids(different)}. "
            "Use one key for both."
        )


__all__ = [
    "Interval",
    "Scores",
    "add_mean_score",
    "add_metric",
    "compare",
    "record",
]
