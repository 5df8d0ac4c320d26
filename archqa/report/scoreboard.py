"""The scores of a run: the headline scores, all scores, break-downs, baselines and cases."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from archqa import tasks
from archqa.report.axis import Axis
from archqa.report.report_data import ReportData

_CASE_METRICS = (
    "strict_micro_f1",
    "micro_f1",
    "answer_correctness",
    "f1",
    "success_rate",
    "rougeLsum",
    "overall_score",
)
"""The score that cases are ordered by: the earliest that they have."""

_MAX_HEADLINES = 4
_STRIP_WIDTH = 160


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


class CaseScore(NamedTuple):
    """A case in the list. `value` is None where the key does not have the case."""

    id: str
    case_index: int
    status: str
    specialty: str
    value: float | None


class Scoreboard(NamedTuple):
    """All scores of a run. `headline` has the official headline scores, the main one first.

    `baselines` has the baseline, the metric and the score; `cases` are ordered worst first.
    `key_statement` says what the scores are against; empty where there are none. `circular`: the
    key may hold the run's own predictions.
    """

    headline: tuple[ScoreLine, ...]
    lines: tuple[ScoreLine, ...]
    missing: Mapping[str, str]
    warnings: tuple[str, ...]
    baselines: tuple[tuple[str, str, float], ...]
    breakdowns: tuple[Breakdown, ...]
    case_metric: str
    cases: tuple[CaseScore, ...]
    key_statement: str = ""
    circular: bool = False


_UNKNOWN_KEY = "These scores do not say which key they are against: run `archqa score` again."


def scoreboard(data: ReportData) -> Scoreboard:
    """Return the scores of a run; without lines if it was not scored."""
    scores = data.scores or {}
    lines = tuple(_score_lines(scores, data.max_score))
    key = scores.get("key") or {"statement": _UNKNOWN_KEY if scores else ""}
    case_metric = case_metric_name(data)
    cases = tuple(sorted(_case_scores(data, case_metric), key=_worst_first))
    breakdowns = [*_specialty_breakdown(cases), *_score_breakdowns(scores)]
    return Scoreboard(
        headline=_headline(lines, data.run.manifest.task),
        lines=lines,
        missing=scores.get("missing", {}),
        warnings=tuple(scores.get("warnings", ())),
        baselines=tuple(_baselines(scores)),
        breakdowns=tuple(breakdowns),
        case_metric=case_metric,
        cases=cases,
        key_statement=key.get("statement", ""),
        circular=key.get("circular", False),
    )


def main_score(data: ReportData) -> ScoreLine | None:
    """Return the first of the task's headline scores; None for a run that was not scored."""
    lines = tuple(_score_lines(data.scores or {}, data.max_score))
    headline = _headline(lines, data.run.manifest.task)
    return headline[0] if headline else None


def case_metric_name(data: ReportData) -> str:
    """Return the score by which cases are ordered; empty if no case has one."""
    available: set[str] = set()
    for scores in data.per_case.values():
        available.update(scores)
    return earliest_metric(available)


def earliest_metric(available: set[str]) -> str:
    """Return the one of these scores by which cases are ordered; empty if it is none of them."""
    for name in _CASE_METRICS:
        if name in available:
            return name
    return ""


def _score_lines(scores: Mapping[str, Any], max_score: float) -> Iterator[ScoreLine]:
    axis = Axis(0, max_score, 4, _STRIP_WIDTH - 4)
    intervals = scores.get("intervals", {})
    signatures = scores.get("signatures", {})
    for name, value in scores.get("scores", {}).items():
        if isinstance(value, dict):  # A break-down.
            continue
        drawn_value = min(max(value, 0), max_score)
        line = ScoreLine(
            name=name,
            value=value,
            signature=signatures.get(name, ""),
            value_x=axis(drawn_value),
        )
        low, high = intervals.get(name, (None, None))
        if low is not None:
            line = line._replace(low=low, low_x=axis(low))
        if high is not None:
            line = line._replace(high=high, high_x=axis(high))
        yield line


def _headline(lines: tuple[ScoreLine, ...], task: str) -> tuple[ScoreLine, ...]:
    lines_by_name = {line.name: line for line in lines}
    headline = []
    for name in tasks.find(task).display.headline:
        if name in lines_by_name:
            headline.append(lines_by_name[name])
    return tuple(headline or lines)[:_MAX_HEADLINES]


def _baselines(scores: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    for name, baseline_scores in scores.get("baselines", {}).items():
        metric = earliest_metric(set(baseline_scores))
        if metric:
            shown_name = name.replace("_", " ")
            yield shown_name, metric, baseline_scores[metric]


def _case_scores(data: ReportData, case_metric: str) -> Iterator[CaseScore]:
    statuses = {case_id: summary.status for case_id, summary in data.summaries.items()}
    specialties = _specialties(data)
    for case_index, case_id in enumerate(data.run.manifest.case_ids):
        scores = data.per_case.get(case_id, {})
        yield CaseScore(
            id=case_id,
            case_index=case_index,
            status=statuses.get(case_id, "not reached"),
            specialty=specialties.get(case_id, ""),
            value=scores.get(case_metric),
        )


def _specialties(data: ReportData) -> dict[str, str]:
    """Return the specialty of each note by case id; questions on a record have none."""
    if not tasks.find(data.run.manifest.task).reads_notes:
        return {}
    return {item.id: item.clinical_specialty for item in data.run.notes}


def _worst_first(case: CaseScore) -> tuple[bool, float, int]:
    """Return the key of the order: worst first, cases without a score last."""
    return case.value is None, case.value or 0, case.case_index


def _specialty_breakdown(cases: tuple[CaseScore, ...]) -> Iterator[Breakdown]:
    """Yield the mean over the cases of each specialty, worst first, if there are several."""
    scores_by_specialty: dict[str, list[float]] = {}
    for case in cases:
        if case.specialty and case.value is not None:
            scores_by_specialty.setdefault(case.specialty, []).append(case.value)
    if len(scores_by_specialty) < 2:
        return
    rows = []
    for specialty, scores in scores_by_specialty.items():
        mean = sum(scores) / len(scores)
        rows.append((specialty, (float(len(scores)), mean)))
    rows.sort(key=_mean_of_row)
    yield Breakdown("By specialty", ("cases", "mean"), tuple(rows))


def _mean_of_row(row: tuple[str, tuple[float, float]]) -> float:
    _, (_, mean) = row
    return mean


def _score_breakdowns(scores: Mapping[str, Any]) -> Iterator[Breakdown]:
    for name, groups in scores.get("scores", {}).items():
        if not isinstance(groups, dict) or not groups:
            continue
        columns = _columns(groups)
        rows = []
        for group, group_scores in groups.items():
            row = tuple(group_scores.get(column) for column in columns)
            rows.append((_group_label(group), row))
        title = name.replace("_", " ").capitalize()
        yield Breakdown(title, columns, tuple(rows))


def _group_label(group: str) -> str:
    """Return the name of a group; a set in braces becomes a list."""
    if group.startswith("{") and group.endswith("}") and "}" not in group[:-1]:
        return group[1:-1] or "none"
    return group


def _columns(groups: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    """Return the names of the scores of all groups, in the order in which they appear."""
    columns: dict[str, None] = {}
    for group_scores in groups.values():
        columns.update(dict.fromkeys(group_scores))
    return tuple(columns)
