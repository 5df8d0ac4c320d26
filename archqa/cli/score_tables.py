"""What `archqa score` prints: the scores, break-downs, baselines and notices."""

from collections.abc import Collection

from rich.table import Table

from archqa import tasks
from archqa.cli.console import console, number_table, print_notice
from archqa.core.usage import Usage
from archqa.evaluation.scoring import ScoreReport
from archqa.tasks.key_provenance import KeyProvenance

_HEADLINES = (
    "strict_micro_f1",
    "micro_f1",
    "answer_correctness",
    "success_rate",
    "clinical_success_rate",
)
"""The score that a baseline is shown by: the earliest that it has."""

_CASE_SCORES = (
    "strict_macro_f1",
    "strict_micro_f1",
    "macro_f1",
    "micro_f1",
    "answer_correctness",
    "success_rate",
    "rougeLsum",
)
"""The score that cases are listed by: the earliest that they have."""

_COUNT_COLUMNS = ("questions", "tasks")

_BREAKDOWN_COLUMNS = (
    *_COUNT_COLUMNS,
    "precision",
    "recall",
    "f1",
    "answer_correctness",
    "success_rate",
    "clinical_success_rate",
    "official",
    "clinical",
)


def print_report(report: ScoreReport, *, per_case: bool) -> None:
    """Print the scores, their break-downs and the baselines; with `per_case`, each case too."""
    decimals = _decimals(report)
    console.print(_score_table(report))
    if report.key:
        console.print(f"  {report.key.statement}", highlight=False, markup=False)
    for name, rows in report.scores.tables.items():
        if rows != report.baselines:  # Baselines are printed below.
            console.print(_breakdown_table(name, rows, decimals))
    console.print("  signatures: --json, or scores.json in the run folder", style="dim")
    for name, scores in report.baselines.items():
        metric = _earliest(_HEADLINES, scores.keys())
        if metric:
            label = name.replace("_", " ")
            line = f"  baseline {label}: {metric} {scores[metric]:.{decimals}f}"
            console.print(line)
    if per_case:
        console.print(_case_table(report))


def print_notices(report: ScoreReport, *, missing_metrics: bool) -> None:
    """Print on stderr what the reader of the scores has to know."""
    if missing_metrics:
        for name, reason in report.scores.missing.items():
            print_notice(f"{name} is missing: {reason}")
    for warning in report.scores.warnings:
        print_notice(warning)
    if report.judge_usage:
        print_notice(_judge_notice(report.judge_usage))
    if report.disagreements:
        count = len(report.disagreements)
        print_notice(f"{count} disagreements of the judge are in {report.disagreements_path}.")
    if report.unsupported_lines:
        count = len(report.unsupported_lines)
        print_notice(f"{count} lines without support are in {report.unsupported_lines_path}.")


def print_key(key: KeyProvenance) -> None:
    """Print on stderr what a key made of reviews is, and its warnings; nothing for other keys."""
    if key.kind == "reviews":
        for line in (key.statement, *key.warnings):
            print_notice(line)


def _judge_notice(usage: Usage) -> str:
    cost = "at unknown cost" if usage.cost_usd is None else f"for ${usage.cost_usd:.2f}"
    return (
        f"the judge was asked {usage.calls} times {cost}; "
        f"{usage.cached_calls} more replies came from the cache."
    )


def _decimals(report: ScoreReport) -> int:
    return tasks.find(report.scores.task).display.decimals


def _score_table(report: ScoreReport) -> Table:
    scores = report.scores
    decimals = _decimals(report)
    title = f"{scores.task}, {_case_count(report)}"
    table = number_table(title, "score", "value", "95 % interval")
    for name, value in scores.scores.items():
        interval_cell = ""
        if name in scores.intervals:
            low, high = scores.intervals[name]
            interval_cell = f"[{low:.{decimals}f}, {high:.{decimals}f}]"
        table.add_row(name, f"{value:.{decimals}f}", interval_cell)
    return table


def _case_count(report: ScoreReport) -> str:
    """How many cases the scores are over; of a partial run, also of how many."""
    cases = report.scores.cases
    if cases < report.cases_in_key:
        return f"{cases:,} of {report.cases_in_key:,} cases"
    return f"{cases:,} cases"


def _breakdown_table(name: str, rows: dict[str, dict[str, float]], decimals: int) -> Table:
    names_in_rows = {name for row in rows.values() for name in row}
    columns = [column for column in _BREAKDOWN_COLUMNS if column in names_in_rows]
    table = number_table(name.replace("_", " "), "", *columns)
    for group, row in rows.items():
        cells = [_breakdown_cell(row, column, decimals) for column in columns]
        table.add_row(group, *cells)
    return table


def _breakdown_cell(row: dict[str, float], column: str, decimals: int) -> str:
    if column not in row:
        return ""
    if column in _COUNT_COLUMNS:
        return f"{row[column]:.0f}"
    return f"{row[column]:.{decimals}f}"


def _case_table(report: ScoreReport) -> Table:
    names_in_cases = {name for scores in report.scores.per_case.values() for name in scores}
    metric = _earliest(_CASE_SCORES, names_in_cases)
    case_scores = {
        case_id: scores.get(metric, 0.0) for case_id, scores in report.scores.per_case.items()
    }
    table = number_table(f"{metric} by case, worst first", "case", metric)
    for case_id in sorted(case_scores, key=lambda case_id: case_scores[case_id]):
        table.add_row(case_id, f"{case_scores[case_id]:.{_decimals(report)}f}")
    return table


def _earliest(preferred: tuple[str, ...], available: Collection[str]) -> str:
    """Return the earliest preferred name that is available, or an empty string."""
    for name in preferred:
        if name in available:
            return name
    return ""
