"""MedAgentBench (Jiang et al., NEJM AI 2025): the rates over graded tasks, and what doing nothing would have scored.

Official: `refsol.py` grades each task (`medagentbench_grading` does that); here graded tasks become the published
rates. Tasks 1, 2, 4, 6 and 7 ask (query), 3, 5, 8, 9 and 10 act (action). A task without a result counts as wrong.
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
    """One task: its number (1 to 10), and whether it was done right by the official and by the clinical grading."""

    number: int
    official: bool
    clinical: bool


@dataclass(frozen=True, kw_only=True)
class SuccessRate(Metric[Graded]):
    """The percentage of tasks of a group done right."""

    name = "success_rate"
    tasks: Literal["all", "query", "action"] = "all"
    grading: Literal["official", "clinical"] = "official"

    @property
    def width(self) -> int:
        """Tasks done right, and tasks of this group."""
        return 2

    def tally(self, case: Graded) -> tuple[float, ...]:
        """(1 if right, 1), or zeros for a task outside the group."""
        group = "query" if case.number in QUERY_TASKS else "action"
        if self.tasks not in ("all", group):
            return 0.0, 0.0
        return float(getattr(case, self.grading)), 1.0

    def value(self, total: FloatArray) -> FloatArray:
        """Percent done right."""
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

    graded: rows with task_id, correct, and clinical_correct where that grading was made. baselines: name → rows
    graded alike, for the replies that do nothing (`FINISH([])` and the like); they come back as the table
    `baselines`. Rows that say what failed (`failure`, `clinical_failure`) come back counted as the table `by_failure`.
    grading: which of the two is told. Raises ScoringError that lists every malformed row.
    """
    rows = _read(graded)
    scores = Scores(
        TASK,
        cases=len(task_ids),
        warnings=check_case_coverage(list(rows), list(task_ids), on_missing),
    )
    cases = {task: _graded(task, rows.get(task, {})) for task in task_ids}
    told = _told(grading, rows.values())
    for name, metric in _leaderboard(bootstrap, seed, told).items():
        add_metric(name, metric, cases, scores)
    scores.tables["by_task"] = _by_task(cases, told)
    if failures := _failures(rows.values(), told):
        scores.tables["by_failure"] = failures
    if baselines:
        scores.tables["baselines"] = {
            name: _rates(own, task_ids, grading) for name, own in baselines.items()
        }
    return scores


def _told(grading: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Prefix → grading, for those asked for and made."""
    made = {"": "official"}
    if any("clinical_correct" in row for row in rows):
        made["clinical_"] = "clinical"
    return {prefix: name for prefix, name in made.items() if grading in (name, "both")}


def _leaderboard(bs: int, seed: int, gradings: Mapping[str, str]) -> dict[str, Metric[Any]]:
    groups = {"success_rate": "all", "query_success_rate": "query", "action_success_rate": "action"}
    return {
        f"{prefix}{name}": SuccessRate(tasks=group, grading=grading, bs=bs, seed=seed)  # type: ignore[arg-type]
        for prefix, grading in gradings.items()
        for name, group in groups.items()
    }


def _read(graded: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    mistakes = [
        f"row {at}: write task_id (like task3_12) and correct (true or false)"
        for at, row in enumerate(graded)
        if not isinstance(row.get("correct"), bool)
        or not re.fullmatch(r"task\d+_\d+", str(row.get("task_id")))
    ]
    times = Counter(str(row.get("task_id")) for row in graded)
    mistakes += [
        f"{task}: graded {count} times; keep one" for task, count in times.items() if count > 1
    ]
    if mistakes:
        raise ScoringError.from_mistakes("graded tasks", mistakes)
    return {row["task_id"]: row for row in graded}


def _graded(task: str, row: Mapping[str, Any]) -> Graded:
    number = re.match(r"task(\d+)_", task)
    if not number:
        raise ScoringError(f"{task!r} is no task id; they read task3_12.")
    return Graded(int(number[1]), bool(row.get("correct")), bool(row.get("clinical_correct")))


def _by_task(
    cases: Mapping[str, Graded], gradings: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    table = {}
    for number in sorted({case.number for case in cases.values()}):
        own = [case for case in cases.values() if case.number == number]
        rates = {
            f"{prefix}success_rate": 100 * sum(getattr(case, name) for case in own) / len(own)
            for prefix, name in gradings.items()
        }
        table[f"task{number}"] = {"tasks": float(len(own)), **rates}
    return table


def _failures(
    rows: Iterable[Mapping[str, Any]], gradings: Mapping[str, str]
) -> dict[str, dict[str, float]]:
    """Kind of failure → how many tasks failed so first, by each grading."""
    counts = {
        name: Counter(row.get(f"{prefix}failure") for row in rows)
        for prefix, name in gradings.items()
    }
    kinds = sorted({kind for count in counts.values() for kind in count if kind})
    return {kind: {name: float(count[kind]) for name, count in counts.items()} for kind in kinds}


def _rates(
    graded: Sequence[Mapping[str, Any]],
    task_ids: Sequence[str],
    grading: Literal["official", "clinical", "both"],
) -> dict[str, float]:
    return score(graded, task_ids, bootstrap=0, grading=grading).scores
