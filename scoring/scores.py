"""The result of scoring: scores with signatures and intervals, and what could not be computed.

Also what all tasks do to get there: choose the metrics, match answers and cases (the key decides
which cases count), and combine scores.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from .errors import ScoringError, list_ids
from .metric import (
    FloatArray,
    Leaderboard,
    Metric,
    MetricMean,
    parse_metric,
    suggest,
)
from .statistics import (
    METHODS,
    RESAMPLES,
    PairedDifference,
    PairedTallies,
    bootstrap_interval,
    paired_differences,
)

Table = dict[str, dict[str, float]]
"""Row → name → value."""

OnMissing = Literal["floor", "refuse"]


class _HasCase(Protocol):
    @property
    def case_id(self) -> str: ...


Row = TypeVar("Row", bound=_HasCase)


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
    per_case: Table = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)
    tallies: dict[str, FloatArray] = field(
        default_factory=dict, repr=False, compare=False
    )
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


def select_metrics(
    requested: Sequence[str] | None,
    leaderboard: Mapping[str, Metric[Any]],
    combined: Mapping[str, Sequence[str]],
) -> Leaderboard:
    """Name → metric, for the requested names; None requests the whole leaderboard.

    A request is a leaderboard name, a combined score (for its parts) or a metric with its settings.
    Raises ScoringError for an unknown metric.
    """
    if requested is None:
        return dict(leaderboard)
    metrics: Leaderboard = {}
    for name in requested:
        if name in combined:
            metrics |= select_metrics(combined[name], leaderboard, combined)
        elif name in leaderboard:
            metrics[name] = leaderboard[name]
        else:
            try:
                metric = parse_metric(name)
            except ScoringError as error:
                names = ", ".join(leaderboard)
                nearest = "" if "(" in name else suggest(name, leaderboard)
                raise ScoringError(
                    f"{error} By leaderboard name{nearest}: {names}."
                ) from error
            if isinstance(metric, MetricMean):
                raise ScoringError(
                    f"{name!r} is a mean; ask for its parts, or a combined score by name."
                )
            metrics[name] = metric
    return metrics


def check_case_coverage(
    answered: Sequence[str],
    key: Sequence[str],
    on_missing: OnMissing,
) -> list[str]:
    """Warnings about cases of the key without an answer and answers to no case of the key.

    If `on_missing` is `refuse`, raises ScoringError with the official message instead.
    """
    missing = sorted(set(key) - set(answered))
    extra = sorted(set(answered) - set(key))
    if on_missing == "refuse" and (missing or extra):
        raise ScoringError(case_id_refusal(answered, key))
    warnings = []
    if missing:
        count = f"{len(missing)} of {len(key)} cases"
        warnings.append(
            f"{count} have no answer and get the floor: {list_ids(missing)}."
        )
    if extra:
        problem = "answers are to cases that the key does not have and are not scored"
        warnings.append(f"{len(extra)} {problem}: {list_ids(extra)}.")
    return warnings


def case_id_refusal(answered: Sequence[str | int], key: Sequence[str]) -> str | None:
    """The official message if the case ids of submission and key differ as sets; None if not.

    A number is another id than the text with its digits, as in the official scripts. What they say
    of ids that the key does not have is not known; our words mirror the known ones.
    """
    # The ids are listed as Python prints a set, but sorted.
    missing = sorted(map(repr, set(key) - set(answered)))
    if missing:
        return f"Case IDs in key but not in submission: {{{', '.join(missing)}}}"
    extra = sorted(map(repr, set(answered) - set(key)))
    if extra:
        return f"Case IDs in submission but not in key: {{{', '.join(extra)}}}"
    return None


def rows_by_case(
    answers: Iterable[Row],
    key: Iterable[str],
    unanswered: Callable[[str], Row],
) -> dict[str, Row]:
    """Every case of the key with its answer, or with `unanswered(case_id)`.

    A second answer to case 7 becomes row `7#2`, since the official scripts count both.
    """
    answers_of: dict[str, list[Row]] = {}
    for answer in answers:
        answers_of.setdefault(answer.case_id, []).append(answer)
    rows = {}
    for case_id in key:
        if case_id not in answers_of:
            rows[case_id] = unanswered(case_id)
            continue
        for number, answer in enumerate(answers_of[case_id], start=1):
            row = case_id if number == 1 else f"{case_id}#{number}"
            rows[row] = answer
    return rows


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
    metric: Metric[Any] | MetricMean,
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
    values = metric.value(tallies)
    for case_id, value in zip(case_ids, values, strict=True):
        case_scores = into.per_case.setdefault(case_id, {})
        case_scores[name] = float(value)


def add_combined_scores(
    requested: Sequence[str] | None,
    combined: Mapping[str, Sequence[str]],
    relevance: str,
    scores: Scores,
) -> None:
    """Write the requested combined scores, each the mean of its parts, into `scores`.

    If parts of `relevance` are missing, write `partial_relevance_score` in its place. The score of
    a stand-in encoder is in neither.
    """
    wanted = set(combined)
    if requested is not None:
        wanted = set(requested)
        for request in requested:
            wanted.update(combined.get(request, ()))
    for name, parts in combined.items():
        if name not in wanted:
            continue
        add_mean_score(name, parts, scores)
        computed = [part for part in parts if part in scores.scores]
        if name == relevance and name in scores.missing and computed:
            add_mean_score("partial_relevance_score", computed, scores)


def add_mean_score(name: str, parts: Sequence[str], into: Scores) -> None:
    """Write the mean of `parts` as `name`; if parts are absent, add it to `missing` instead."""
    absent = [part for part in parts if part not in into.scores]
    if absent:
        listed = ", ".join(absent)
        into.missing[name] = (
            f"needs {listed}; a mean without them is not the official score."
        )
        return
    metrics = []
    tallies = []
    for part in parts:
        signature = into.signatures[part]
        metrics.append(parse_metric(signature))
        tallies.append(into.tallies[part])
    case_ids = list(into.per_case)
    if len(parts) == 1:
        record(name, metrics[0], case_ids, tallies[0], into)
    else:
        mean = MetricMean(tuple(metrics))
        record(name, mean, case_ids, np.hstack(tallies), into)


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
    if run_a.task != run_b.task:
        raise ScoringError(
            f"the runs are of different tasks, {run_a.task} and {run_b.task}; compare runs of one."
        )
    different = run_a.per_case.keys() ^ run_b.per_case.keys()
    if different:
        count = f"{len(different)} cases are in only one of them"
        listed = list_ids(sorted(different))
        raise ScoringError(
            f"the runs do not cover the same cases; {count}: {listed}. Use one key for both."
        )
    rows_of_b = {case_id: row for row, case_id in enumerate(run_b.per_case)}
    matching_rows = [rows_of_b[case_id] for case_id in run_a.per_case]
    paired = {}
    for name, tallies in run_a.tallies.items():
        signature = run_a.signatures[name]
        if run_b.signatures.get(name) == signature:
            tallies_b = run_b.tallies[name][matching_rows]
            paired[name] = PairedTallies(parse_metric(signature), tallies, tallies_b)
    if not paired:
        raise ScoringError(
            "the runs share no score; score both with the same settings."
        )
    return paired_differences(paired, method, resamples, seed)
