"""MedAgentBench (Jiang et al., NEJM AI 2025): success rates over graded tasks, and baselines.

Officially `refsol.py` grades every task (here `medagentbench_grading`); this module computes the
published rates from the grades. Tasks 1, 2, 4, 6 and 7 only query the record, tasks 3, 5, 8, 9 and
10 also act on it. A task without a result counts as wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..errors import ScoringError
from ..metric import FloatArray, Metric, ratio
from ..scores import Scores, add_metric
from .selection import OnMissing, check_case_coverage

TASK = "medagentbench"
QUERY_TASKS = frozenset({1, 2, 4, 6, 7})


class Graded(NamedTuple):
    """A task's number (1 to 10), and whether it is correct by the official and clinical grading."""

    number: int
    official: bool
    clinical: bool


@dataclass(frozen=True, kw_only=True)
class SuccessRate(Metric[Graded]):
    """The percentage of correct tasks in a group of tasks."""

    name = "success_rate"
    tasks: Literal["all", "query", "action"] = "all"
    grading: Literal["official", "clinical"] = "official"

    @property
    def width(self) -> int:
        """Correct tasks, and tasks of the group."""
        return 2

    def tally(self, case: Graded) -> tuple[float, ...]:
        """(1 if correct, 1), or zeros for a task outside the group."""
        group = "query" if case.number in QUERY_TASKS else "action"
        if self.tasks not in ("all", group):
            return 0.0, 0.0
        return float(getattr(case, self.grading)), 1.0

    def value(self, total: FloatArray) -> FloatArray:
        """Percent correct."""
        return ratio(100 * total[..., 0], total[..., 1])


def score(
    graded: Sequence[Mapping[str, Any]],
    task_ids: Sequence[str],
    *,
    baselines: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    bootstrap: int = 1000,
    seed: int = 12345,
    on_missing: OnMissing = "floor",
    grading: Literal["official", "clinical", "both"] = "both",
) -> Scores:
    """Success rates (0 to 100) of graded tasks over `task_ids` (`task3_12`), which decide what counts.

    graded: rows with task_id and correct, and clinical_correct where the clinical grading was run.
    baselines: name → graded rows of replies that do nothing (such as `FINISH([])`); their rates
    are returned as the table `baselines`. The kinds of failure in the rows (`failure`,
    `clinical_failure`) are counted in the table `by_failure`. grading: which gradings to report.
    Raises ScoringError that lists every malformed row.
    """
    rows = _read_rows(graded)
    warnings = check_case_coverage(list(rows), list(task_ids), on_missing)
    scores = Scores(TASK, cases=len(task_ids), warnings=warnings)
    cases = {task_id: _graded_task(task_id, rows.get(task_id, {})) for task_id in task_ids}
    gradings = _reported_gradings(grading, rows.values())
    for name, metric in _leaderboard(bootstrap, seed, gradings).items():
        add_metric(name, metric, cases, scores)
    scores.tables["by_task"] = _rates_by_task(cases, gradings)
    failures = _count_failures(rows.values(), gradings)
    if failures:
        scores.tables["by_failure"] = failures
    if baselines:
        baseline_rates = {}
        for name, baseline in baselines.items():
            baseline_scores = score(baseline, task_ids, bootstrap=0, grading=grading)
            baseline_rates[name] = baseline_scores.scores
        scores.tables["baselines"] = baseline_rates
    return scores


def _reported_gradings(
    requested: str, rows: Iterable[Mapping[str, Any]]
) -> dict[str, Literal["official", "clinical"]]:
    """Prefix of the score's name → grading, for the requested gradings that were run."""
    gradings: dict[str, Literal["official", "clinical"]] = {}
    if requested in ("official", "both"):
        gradings[""] = "official"
    clinical_was_run = any("clinical_correct" in row for row in rows)
    if clinical_was_run and requested in ("clinical", "both"):
        gradings["clinical_"] = "clinical"
    return gradings


def _leaderboard(
    bs: int, seed: int, gradings: Mapping[str, Literal["official", "clinical"]]
) -> dict[str, Metric[Any]]:
    metrics: dict[str, Metric[Any]] = {}
    for prefix, grading in gradings.items():
        common: dict[str, Any] = {"grading": grading, "bs": bs, "seed": seed}
        metrics[f"{prefix}success_rate"] = SuccessRate(tasks="all", **common)
        metrics[f"{prefix}query_success_rate"] = SuccessRate(tasks="query", **common)
        metrics[f"{prefix}action_success_rate"] = SuccessRate(tasks="action", **common)
    return metrics


def _read_rows(graded: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    mistakes = []
    counts: Counter[str] = Counter()
    for index, row in enumerate(graded):
        task_id = str(row.get("task_id"))
        counts[task_id] += 1
        has_task_id = re.fullmatch(r"task\d+_\d+", task_id)
        if not has_task_id or not isinstance(row.get("correct"), bool):
            mistakes.append(
                f"row {index}: write task_id (like task3_12) and correct (true or false)"
            )
    for task_id, count in counts.items():
        if count > 1:
            mistakes.append(f"{task_id}: graded {count} times; keep one")
    if mistakes:
        raise ScoringError.from_mistakes("graded tasks", mistakes)
    return {row["task_id"]: row for row in graded}


def _graded_task(task_id: str, row: Mapping[str, Any]) -> Graded:
    number = re.match(r"task(\d+)_", task_id)
    if not number:
        raise ScoringError(f"{task_id!r} is no task id; they read task3_12.")
    official = bool(row.get("correct"))
    clinical = bool(row.get("clinical_correct"))
    return Graded(int(number[1]), official, clinical)


def _rates_by_task(
    cases: Mapping[str, Graded], gradings: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    by_number: dict[int, list[Graded]] = {}
    for case in cases.values():
        by_number.setdefault(case.number, []).append(case)
    table = {}
    for number, group in sorted(by_number.items()):
        row = {"tasks": float(len(group))}
        for prefix, grading in gradings.items():
            correct = sum(getattr(case, grading) for case in group)
            row[f"{prefix}success_rate"] = 100 * correct / len(group)
        table[f"task{number}"] = row
    return table


def _count_failures(
    rows: Iterable[Mapping[str, Any]], gradings: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Kind of failure → grading → how many tasks have this kind as their first fault."""
    table: dict[str, dict[str, float]] = {}
    for row in rows:
        for prefix, grading in gradings.items():
            kind = row.get(f"{prefix}failure")
            if kind:
                counts = table.setdefault(kind, dict.fromkeys(gradings.values(), 0.0))
                counts[grading] += 1
    return dict(sorted(table.items()))
