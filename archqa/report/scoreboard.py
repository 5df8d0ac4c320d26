"""The scores of a run as people read them: the headline first, each with its interval drawn, and what stands beside."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from archqa import tasks
from archqa.core.case import Case
from archqa.report.axis import Axis
from archqa.report.material import ReportData

_BY_CASE = (
    "strict_micro_f1",
    "micro_f1",
    "answer_correctness",
    "f1",
    "success_rate",
    "rougeLsum",
    "overall_score",
)
_WIDTH = 160


class ScoreLine(NamedTuple):
    """One score; `left`, `right` and `at` are places of its interval on a strip `_WIDTH` wide, None without one."""

    name: str
    value: float
    low: float | None
    high: float | None
    signature: str
    at: float
    left: float | None
    right: float | None


class Breakdown(NamedTuple):
    """A table of scores by group: its columns, and rows of group and values."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float | None, ...]], ...]


class CaseScore(NamedTuple):
    """A case in the list, worst first. `value` is None where the key does not know it. `place` counts from 0."""

    id: str
    place: int
    status: str
    specialty: str
    value: float | None
    precision: float | None
    recall: float | None


class Scoreboard(NamedTuple):
    """All scores of a run. `headline` are the lines of the official headline scores, the main one first."""

    headline: tuple[ScoreLine, ...]
    lines: tuple[ScoreLine, ...]
    missing: Mapping[str, str]
    warnings: tuple[str, ...]
    baselines: tuple[tuple[str, str, float], ...]
    breakdowns: tuple[Breakdown, ...]
    by_case: str
    cases: tuple[CaseScore, ...]


def scoreboard(material: ReportData) -> Scoreboard:
    """Everything about the scores of a run; empty lines where it was not scored."""
    content = material.scores or {}
    lines = tuple(_lines(content, material.max_score))
    by_case = case_metric_name(material)
    cases = tuple(
        sorted(
            _cases(material, by_case),
            key=lambda each: (each.value is None, each.value or 0, each.place),
        )
    )
    return Scoreboard(
        headline=_headline(lines, material.run.manifest.task),
        lines=lines,
        missing=content.get("missing", {}),
        warnings=tuple(content.get("warnings", ())),
        baselines=tuple(_baselines(content)),
        breakdowns=(*_by_specialty(cases), *_tables(content)),
        by_case=by_case,
        cases=cases,
    )


def case_metric_name(material: ReportData) -> str:
    """The score by which the cases are ordered; empty where no case has one."""
    named = {name for values in material.per_case.values() for name in values}
    return next((each for each in _BY_CASE if each in named), "")


def _lines(content: Mapping[str, Any], top: float) -> Iterator[ScoreLine]:
    axis = Axis(0, top, 4, _WIDTH - 4)
    for name, value in content.get("scores", {}).items():
        if isinstance(value, dict):
            continue
        low, high = content.get("intervals", {}).get(name, (None, None))
        signature = content.get("signatures", {}).get(name, "")
        ends = (axis(low), axis(high)) if low is not None else (None, None)
        yield ScoreLine(name, value, low, high, signature, axis(min(max(value, 0), top)), *ends)


def _headline(lines: tuple[ScoreLine, ...], task: str) -> tuple[ScoreLine, ...]:
    by_name = {line.name: line for line in lines}
    headline = tasks.find(task).display.headline
    found = [by_name[name] for name in headline if name in by_name]
    return tuple(found[:4]) or lines[:4]


def _baselines(content: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    for name, scores in content.get("baselines", {}).items():
        first = next((each for each in _BY_CASE if each in scores), None)
        if first:
            yield name.replace("_", " "), first, scores[first]


def _cases(material: ReportData, by_case: str) -> Iterator[CaseScore]:
    records = {record.id: record.status.value for record in material.run.iter_records()}
    for place, item in enumerate(material.run.cases):
        values = material.per_case.get(item.id, {})
        family = by_case.removesuffix("f1")
        yield CaseScore(
            id=item.id,
            place=place,
            status=records.get(item.id, "not reached"),
            specialty=item.clinical_specialty if isinstance(item, Case) else "",
            value=values.get(by_case),
            precision=values.get(f"{family}precision"),
            recall=values.get(f"{family}recall"),
        )


def _by_specialty(cases: tuple[CaseScore, ...]) -> Iterator[Breakdown]:
    """The mean over the cases of each specialty, the worst first."""
    groups: dict[str, list[float]] = {}
    for case in cases:
        if case.specialty and case.value is not None:
            groups.setdefault(case.specialty, []).append(case.value)
    if len(groups) > 1:
        worst_first = sorted(groups, key=lambda name: sum(groups[name]) / len(groups[name]))
        rows = tuple((name, _count_and_mean(groups[name])) for name in worst_first)
        yield Breakdown("By specialty", ("cases", "mean"), rows)


def _count_and_mean(values: list[float]) -> tuple[float | None, ...]:
    return float(len(values)), sum(values) / len(values)


def _tables(content: Mapping[str, Any]) -> Iterator[Breakdown]:
    for title, rows in content.get("scores", {}).items():
        if isinstance(rows, dict) and rows:
            columns = tuple(dict.fromkeys(name for row in rows.values() for name in row))
            lines = tuple(
                (group, tuple(row.get(name) for name in columns)) for group, row in rows.items()
            )
            yield Breakdown(title.replace("_", " ").capitalize(), columns, lines)
