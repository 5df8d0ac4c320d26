"""Two runs of the same cases: what the paired test says, and which cases and sentences they part on."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from archqa.core.case import Case
from archqa.errors import ArchqaError
from archqa.evaluation.scoring import compare_runs
from archqa.report.axis import Axis, Tick
from archqa.report.material import ReportData
from archqa.report.note_view import cited_ids
from archqa.report.scoreboard import case_metric_name

WIDTH = 320
_SURE = 0.05


class ScoreDifference(NamedTuple):
    """One score of both runs and the paired test of their difference (the second minus the first)."""

    name: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    sure: bool


class CaseDifference(NamedTuple):
    """One case on which the runs part: both scores, their places on the strip, and the citations of one run only."""

    id: str
    place: int
    first: float | None
    second: float | None
    change: float
    first_x: float | None
    second_x: float | None
    cited_only_by_first: tuple[str, ...]
    cited_only_by_second: tuple[str, ...]


class RunComparison(NamedTuple):
    """The comparison; `test_skipped_reason` is empty where the paired test could be made."""

    score_differences: tuple[ScoreDifference, ...]
    test_skipped_reason: str
    by_case: str
    case_differences: tuple[CaseDifference, ...]
    alike: int
    ticks: tuple[Tick, ...]


def compare_for_report(first: ReportData, second: ReportData, key: Path | None) -> RunComparison:
    """What changes from the first run to the second, the greatest changes first."""
    tested, why = _tested(first, second, key)
    axis = Axis(0, first.max_score, 6, WIDTH - 6)
    found = list(_parted(first, second, axis))
    parted = [
        each
        for each in found
        if each.change or each.cited_only_by_first or each.cited_only_by_second
    ]
    parted.sort(key=lambda each: (-abs(each.change), each.place))
    name = case_metric_name(first)
    return RunComparison(tested, why, name, tuple(parted), len(found) - len(parted), axis.ticks())


def _tested(
    first: ReportData, second: ReportData, key: Path | None
) -> tuple[tuple[ScoreDifference, ...], str]:
    try:
        found = compare_runs(second.run.path, first.run.path, key=key, method="paired-bootstrap")
    except ArchqaError as error:
        return (), str(error).splitlines()[0]
    ours, theirs = ((each.scores or {}).get("scores", {}) for each in (first, second))
    return tuple(
        ScoreDifference(
            name,
            ours[name],
            theirs[name],
            each.difference,
            each.low,
            each.high,
            each.p_value,
            each.p_value < _SURE,
        )
        for name, each in found.items()
        if name in ours and name in theirs
    ), ""


def _parted(first: ReportData, second: ReportData, axis: Axis) -> Iterator[CaseDifference]:
    name = case_metric_name(first)
    for place, item in enumerate(first.run.cases):
        one, other = (each.per_case.get(item.id, {}).get(name) for each in (first, second))
        ours, theirs = (cited_ids(each.run.get_record(item.id)) for each in (first, second))
        order = item.in_note_order if isinstance(item, Case) else lambda ids: tuple(sorted(ids))
        yield CaseDifference(
            id=item.id,
            place=place,
            first=one,
            second=other,
            change=(other or 0.0) - (one or 0.0),
            first_x=None if one is None else axis(one),
            second_x=None if other is None else axis(other),
            cited_only_by_first=order(ours - theirs),
            cited_only_by_second=order(theirs - ours),
        )
