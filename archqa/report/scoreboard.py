"""The scores of a run: the headline scores, all scores, break-downs and baselines."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from archqa import tasks
from archqa.report.figures import Axis
from archqa.report.page import count, count_cases
from archqa.report.report_data import ReportData, earliest_metric

_MAX_HEADLINES = 4
_STRIP_WIDTH = 160
_UNKNOWN_KEY = (
    "These scores do not say which key they are against: run `archqa score` again."
)


class ScoreLine(NamedTuple):
    """One score with its interval; `value_x`, `low_x` and `high_x` are positions on a strip."""

    name: str
    value: float
    signature: str
    value_x: float
    low: float | None = None
    high: float | None = None
    low_x: float | None = None
    high_x: float | None = None


class Breakdown(NamedTuple):
    """A table of scores by group: its columns, and rows of group and values."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float | None, ...]], ...]


class Scoreboard(NamedTuple):
    """All scores of a run. `headline` has the official headline scores, the main one first.

    `baselines` has the baseline, the metric and the score. `key_statement` says what the scores are
    against; empty where there are none. `circular`: the key may hold the run's own predictions.
    """

    headline: tuple[ScoreLine, ...]
    lines: tuple[ScoreLine, ...]
    missing: Mapping[str, str]
    warnings: tuple[str, ...]
    baselines: tuple[tuple[str, str, float], ...]
    breakdowns: tuple[Breakdown, ...]
    case_metric: str
    key_statement: str = ""
    circular: bool = False


def scoreboard(data: ReportData) -> Scoreboard:
    """Return the scores of a run; without lines if it was not scored."""
    scores = data.scores or {}
    lines = _score_lines(data)
    key = scores.get("key") or {"statement": _UNKNOWN_KEY if scores else ""}
    baselines = []
    for name, baseline_scores in scores.get("baselines", {}).items():
        metric = earliest_metric(set(baseline_scores))
        if metric:
            label = name.replace("_", " ")
            baselines.append((label, metric, baseline_scores[metric]))
    return Scoreboard(
        headline=_headline(lines, data.run.manifest.task),
        lines=lines,
        missing=scores.get("missing", {}),
        warnings=tuple(scores.get("warnings", ())),
        baselines=tuple(baselines),
        breakdowns=(*_specialty_breakdown(data), *_score_breakdowns(scores)),
        case_metric=data.case_metric,
        key_statement=key.get("statement", ""),
        circular=key.get("circular", False),
    )


def main_score(data: ReportData) -> ScoreLine | None:
    """Return the first of the task's headline scores; None for a run that was not scored."""
    headline = _headline(_score_lines(data), data.run.manifest.task)
    return headline[0] if headline else None


def scored_cases(scores: Mapping[str, Any] | None) -> str:
    """Return over how many cases scores are, as in "over 6 of 48 cases"; empty if not known."""
    content = scores or {}
    cases, cases_in_key = content.get("cases"), content.get("cases_in_key")
    if not isinstance(cases, int) or not cases:
        return ""
    if isinstance(cases_in_key, int) and cases < cases_in_key:
        return f"over {count(cases)} of {count_cases(cases_in_key)}"
    return f"over {count_cases(cases)}"


def _score_lines(data: ReportData) -> tuple[ScoreLine, ...]:
    content = data.scores or {}
    axis = Axis(0, data.max_score, 4, _STRIP_WIDTH - 4)
    intervals = content.get("intervals", {})
    signatures = content.get("signatures", {})
    lines = []
    for name, value in content.get("scores", {}).items():
        if isinstance(value, dict):  # A break-down.
            continue
        low, high = intervals.get(name, (None, None))
        line = ScoreLine(
            name=name,
            value=value,
            signature=signatures.get(name, ""),
            value_x=axis(min(max(value, 0), data.max_score)),
            low=low,
            high=high,
            low_x=None if low is None else axis(low),
            high_x=None if high is None else axis(high),
        )
        lines.append(line)
    return tuple(lines)


def _headline(lines: tuple[ScoreLine, ...], task: str) -> tuple[ScoreLine, ...]:
    lines_by_name = {line.name: line for line in lines}
    headline = []
    for name in tasks.find(task).display.headline:
        if name in lines_by_name:
            headline.append(lines_by_name[name])
    return tuple(headline or lines)[:_MAX_HEADLINES]


def _specialty_breakdown(data: ReportData) -> Iterator[Breakdown]:
    """Yield the mean over the cases of each specialty, worst first, if there are several."""
    if not tasks.find(data.run.manifest.task).reads_notes:
        return
    case_scores = data.case_scores
    scored = [case for case in data.run.notes if case.id in case_scores]
    scored.sort(key=lambda case: case_scores[case.id])
    scores_by_specialty: dict[str, list[float]] = {}
    for case in scored:
        if case.clinical_specialty:
            scores = scores_by_specialty.setdefault(case.clinical_specialty, [])
            scores.append(case_scores[case.id])
    if len(scores_by_specialty) < 2:
        return
    rows = []
    for specialty, scores in scores_by_specialty.items():
        count_and_mean = (float(len(scores)), sum(scores) / len(scores))
        rows.append((specialty, count_and_mean))
    rows.sort(key=lambda row: row[1][1])
    yield Breakdown("By specialty", ("cases", "mean"), tuple(rows))


def _score_breakdowns(scores: Mapping[str, Any]) -> Iterator[Breakdown]:
    for name, groups in scores.get("scores", {}).items():
        if not isinstance(groups, dict) or not groups:
            continue
        # The scores of all groups, in the order in which they appear.
        columns: dict[str, None] = {}
        for group_scores in groups.values():
            columns.update(dict.fromkeys(group_scores))
        rows = []
        for group, group_scores in groups.items():
            label = group
            is_set = group.startswith("{") and group.endswith("}")
            if is_set and "}" not in group[:-1]:
                label = group[1:-1] or "none"
            values = tuple(map(group_scores.get, columns))
            rows.append((label, values))
        title = name.replace("_", " ").capitalize()
        yield Breakdown(title, tuple(columns), tuple(rows))
