"""MedAgentBench (Jiang et al., NEJM AI 2025): grades of conversations, success rates, baselines.

Officially `refsol.py` grades every task; `grade` does so by its rules and by clinical ones, from
the tasks, the transcripts and a FHIR search function over the patients' record. `score` computes the
published rates from the grades. Tasks 1, 2, 4, 6 and 7 only query the record, tasks 3, 5, 8, 9 and
10 also act on it. A task without a result counts as wrong.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..errors import ScoringError
from ..metric import Leaderboard, RatioMetric, Tally
from ..scores import OnMissing, Scores, Table, add_metric, check_case_coverage
from ..submission import Rows
from .medagentbench_clinical import clinical_faults
from .medagentbench_official import BASE, official_faults
from .medagentbench_reference import Fault, Lookup
from .medagentbench_transcript import Task, Transcript, finish_only_transcript

TASK = "medagentbench"
QUERY_TASKS = frozenset({1, 2, 4, 6, 7})
IDLE = ("FINISH([])", "FINISH([-1])", "FINISH()")
"""Replies that do nothing; their scores are reported as baselines."""

Grading = Literal["official", "clinical"]
GRADINGS: dict[str, Grading] = {"": "official", "clinical_": "clinical"}
"""The prefix of a score's name → its grading."""


@dataclass(frozen=True)
class Grade:
    """The faults of one task by the official and the clinical grading."""

    task_id: str
    official: tuple[Fault, ...]
    clinical: tuple[Fault, ...]

    def row(self) -> dict[str, Any]:
        """The row that `score` takes."""
        return {
            "task_id": self.task_id,
            "correct": not self.official,
            "clinical_correct": not self.clinical,
            "failure": self.official[0].kind if self.official else None,
            "clinical_failure": self.clinical[0].kind if self.clinical else None,
            "faults": [fault._asdict() for fault in self.official],
            "clinical_faults": [fault._asdict() for fault in self.clinical],
        }


def grade(
    task: Task,
    transcript: Transcript,
    lookup: Lookup,
    base: str = BASE,
) -> Grade:
    """Grade one conversation with the server at this base URL. Raises what `lookup` raises."""
    official = official_faults(task, transcript, lookup, base)
    clinical = clinical_faults(task, transcript, lookup)
    return Grade(task.id, tuple(official), tuple(clinical))


def grade_all(
    tasks: Sequence[Task],
    transcripts: Mapping[str, Transcript],
    lookup: Lookup,
    base: str = BASE,
) -> list[dict[str, Any]]:
    """The rows of all tasks that have a transcript, in the order of the tasks."""
    rows = []
    for task in tasks:
        if task.id in transcripts:
            task_grade = grade(task, transcripts[task.id], lookup, base)
            rows.append(task_grade.row())
    return rows


def count_posts_elsewhere(transcripts: Iterable[Transcript], base: str) -> int:
    """How many conversations have an accepted POST to a URL that does not begin with the base."""
    elsewhere = 0
    for transcript in transcripts:
        for url in transcript.executed_urls():
            if not url.startswith(base):
                elsewhere += 1
                break
    return elsewhere


def grade_do_nothing(
    tasks: Sequence[Task], lookup: Lookup
) -> dict[str, list[dict[str, Any]]]:
    """Reply → the rows that the reply would get in every task, for the replies that do nothing."""
    rows_of = {}
    for reply in IDLE:
        transcript = finish_only_transcript(reply)
        transcripts = {task.id: transcript for task in tasks}
        rows_of[reply] = grade_all(tasks, transcripts, lookup)
    return rows_of


class GradedTask(NamedTuple):
    """A task's number (1 to 10), and whether it is correct by the official and clinical grading."""

    number: int
    official: bool
    clinical: bool


@dataclass(frozen=True, kw_only=True)
class SuccessRate(RatioMetric[GradedTask]):
    """The percentage of correct tasks in a group of tasks."""

    name = "success_rate"
    tasks: Literal["all", "query", "action"] = "all"
    grading: Grading = "official"

    def tally(self, case: GradedTask) -> Tally:
        """(100 if correct, 1), or zeros for a task outside the group."""
        group = "query" if case.number in QUERY_TASKS else "action"
        if self.tasks not in ("all", group):
            return 0.0, 0.0
        correct = case.official if self.grading == "official" else case.clinical
        return 100.0 * correct, 1.0


def score(
    graded: Rows,
    task_ids: Sequence[str],
    *,
    baselines: Mapping[str, Rows] | None = None,
    bootstrap: int = 1000,
    seed: int = 12345,
    on_missing: OnMissing = "floor",
    grading: Grading | Literal["both"] = "both",
) -> Scores:
    """Success rates (0 to 100) of graded tasks over all `task_ids` (such as `task3_12`).

    graded: rows with task_id and correct, and clinical_correct where the clinical grading was run.
    baselines: name → graded rows of replies that do nothing (such as `FINISH([])`); their rates
    are returned as the table `baselines`. The kinds of failure in the rows (`failure`,
    `clinical_failure`) are counted in the table `by_failure`. grading: which gradings to report.
    Raises ScoringError that lists every malformed row.
    """
    rows = _read_rows(graded)
    warnings = check_case_coverage(list(rows), list(task_ids), on_missing)
    scores = Scores(TASK, cases=len(task_ids), warnings=warnings)
    cases = {}
    for task_id in task_ids:
        number = re.match(r"task(\d+)_", task_id)
        if not number:
            raise ScoringError(f"{task_id!r} is no task id; they read task3_12.")
        row = rows.get(task_id, {})
        cases[task_id] = GradedTask(
            number=int(number[1]),
            official=bool(row.get("correct")),
            clinical=bool(row.get("clinical_correct")),
        )
    clinical_was_run = any("clinical_correct" in row for row in rows.values())
    gradings: dict[str, Grading] = {}
    for prefix, one_grading in GRADINGS.items():
        was_run = one_grading == "official" or clinical_was_run
        if was_run and grading in (one_grading, "both"):
            gradings[prefix] = one_grading
    for name, metric in leaderboard_metrics(gradings, bootstrap, seed).items():
        add_metric(name, metric, cases, scores)
    scores.tables["by_task"] = _rates_by_task(cases, gradings)
    failures = _count_failures(rows.values(), gradings)
    if failures:
        scores.tables["by_failure"] = failures
    if baselines:
        rates = {}
        for reply, baseline in baselines.items():
            baseline_scores = score(baseline, task_ids, bootstrap=0, grading=grading)
            rates[reply] = baseline_scores.scores
        scores.tables["baselines"] = rates
    return scores


def leaderboard_metrics(
    gradings: Mapping[str, Grading] = GRADINGS,
    bs: int = 1000,
    seed: int = 12345,
) -> Leaderboard:
    """The official metrics by their names, for each of the gradings (prefix → grading)."""
    metrics: Leaderboard = {}
    for prefix, grading in gradings.items():
        common: dict[str, Any] = {"grading": grading, "bs": bs, "seed": seed}
        metrics[f"{prefix}success_rate"] = SuccessRate(tasks="all", **common)
        metrics[f"{prefix}query_success_rate"] = SuccessRate(tasks="query", **common)
        metrics[f"{prefix}action_success_rate"] = SuccessRate(tasks="action", **common)
    return metrics


def _read_rows(graded: Rows) -> dict[str, Mapping[str, Any]]:
    mistakes = []
    counts: Counter[str] = Counter()
    for index, row in enumerate(graded):
        task_id = str(row.get("task_id"))
        counts[task_id] += 1
        has_task_id = re.fullmatch(r"task\d+_\d+", task_id)
        if not has_task_id or not isinstance(row.get("correct"), bool):
            remedy = "write task_id (like task3_12) and correct (true or false)"
            mistakes.append(f"row {index}: {remedy}")
    for task_id, count in counts.items():
        if count > 1:
            mistakes.append(f"{task_id}: graded {count} times; keep one")
    if mistakes:
        raise ScoringError.from_mistakes("graded tasks", mistakes)
    return {row["task_id"]: row for row in graded}


def _rates_by_task(
    cases: Mapping[str, GradedTask], gradings: Mapping[str, Grading]
) -> Table:
    by_number: dict[int, list[GradedTask]] = {}
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
    rows: Iterable[Mapping[str, Any]], gradings: Mapping[str, Grading]
) -> Table:
    """Kind of failure → grading → how many tasks have this kind as their first fault."""
    table: Table = {}
    for row in rows:
        for prefix, grading in gradings.items():
            kind = row.get(f"{prefix}failure")
            if not kind:
                continue
            if kind not in table:
                table[kind] = dict.fromkeys(gradings.values(), 0.0)
            table[kind][grading] += 1
    return dict(sorted(table.items()))
