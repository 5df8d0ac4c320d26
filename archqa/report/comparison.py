"""Two runs of the same cases: the paired test, and the cases and citations that differ."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.question import Item
from archqa.errors import ArchqaError
from archqa.evaluation.comparison import compare_runs
from archqa.report.axis import Axis, Tick
from archqa.report.note_view import cited_ids
from archqa.report.report_data import ReportData
from archqa.report.scoreboard import case_metric_name

WIDTH = 320
_SIGNIFICANCE_LEVEL = 0.05


class ScoreDifference(NamedTuple):
    """A score of run 1 and run 2, and the paired test of their difference (run 2 minus run 1).

    `p_value` is adjusted over all scores of the table (Holm).
    """

    name: str
    score_1: float
    score_2: float
    difference: float
    low: float
    high: float
    p_value: float
    significant: bool


class CaseDifference(NamedTuple):
    """A case: its score in each run, the scores' positions, and the citations of one run only."""

    id: str
    case_index: int
    score_1: float | None
    score_2: float | None
    change: float
    x_1: float | None
    x_2: float | None
    cited_only_by_1: tuple[str, ...]
    cited_only_by_2: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether the runs differ on the case in its score or its citations."""
        return bool(self.change or self.cited_only_by_1 or self.cited_only_by_2)


class RunComparison(NamedTuple):
    """The comparison; `test_skipped_reason` is empty if the paired test could be made."""

    score_differences: tuple[ScoreDifference, ...]
    test_skipped_reason: str
    case_metric: str
    case_differences: tuple[CaseDifference, ...]
    identical_cases: int
    ticks: tuple[Tick, ...]


def compare_for_report(data_1: ReportData, data_2: ReportData, key: Path | None) -> RunComparison:
    """Return what changes from run 1 to run 2, the largest changes first."""
    score_differences, test_skipped_reason = _test_scores(data_1, data_2, key)
    axis = Axis(0, data_1.max_score, 6, WIDTH - 6)
    all_cases = list(_compare_cases(data_1, data_2, axis))
    differing = [case for case in all_cases if case.differs]
    differing.sort(key=lambda case: (-abs(case.change), case.case_index))
    return RunComparison(
        score_differences=score_differences,
        test_skipped_reason=test_skipped_reason,
        case_metric=case_metric_name(data_1),
        case_differences=tuple(differing),
        identical_cases=len(all_cases) - len(differing),
        ticks=axis.ticks(),
    )


def _test_scores(
    data_1: ReportData, data_2: ReportData, key: Path | None
) -> tuple[tuple[ScoreDifference, ...], str]:
    """Return the tested scores, or the reason why there is no test."""
    try:
        tests = compare_runs(data_2.run.path, data_1.run.path, key=key)
    except ArchqaError as error:
        return (), str(error).splitlines()[0]
    scores_1 = (data_1.scores or {}).get("scores", {})
    scores_2 = (data_2.scores or {}).get("scores", {})
    differences = []
    for name, test in tests.items():
        if name in scores_1 and name in scores_2:
            differences.append(
                ScoreDifference(
                    name=name,
                    score_1=scores_1[name],
                    score_2=scores_2[name],
                    difference=test.difference,
                    low=test.low,
                    high=test.high,
                    p_value=test.adjusted_p_value,
                    significant=test.adjusted_p_value < _SIGNIFICANCE_LEVEL,
                )
            )
    return tuple(differences), ""


def _compare_cases(data_1: ReportData, data_2: ReportData, axis: Axis) -> Iterator[CaseDifference]:
    metric = case_metric_name(data_1)
    for case_index, item in enumerate(data_1.run.cases):
        score_1 = data_1.per_case.get(item.id, {}).get(metric)
        score_2 = data_2.per_case.get(item.id, {}).get(metric)
        cited_1 = cited_ids(data_1.run.get_record(item.id))
        cited_2 = cited_ids(data_2.run.get_record(item.id))
        yield CaseDifference(
            id=item.id,
            case_index=case_index,
            score_1=score_1,
            score_2=score_2,
            change=(score_2 or 0.0) - (score_1 or 0.0),
            x_1=None if score_1 is None else axis(score_1),
            x_2=None if score_2 is None else axis(score_2),
            cited_only_by_1=_in_order(item, cited_1 - cited_2),
            cited_only_by_2=_in_order(item, cited_2 - cited_1),
        )


def _in_order(item: Item, ids: frozenset[str]) -> tuple[str, ...]:
    if isinstance(item, Case):
        return item.in_note_order(ids)
    return tuple(sorted(ids))
