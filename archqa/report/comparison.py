"""Two runs of the same cases: the paired test, and the cases and citations that differ."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from archqa.core.case import Case
from archqa.core.question import Item
from archqa.errors import ArchqaError
from archqa.evaluation.comparison import compare_runs
from archqa.report.case_table import (
    NOT_REACHED,
    TableColumn,
    filled_fields,
    short_question,
)
from archqa.report.page import strip_bidi
from archqa.report.report_data import CaseSummary, ReportData
from archqa.runs.record import CaseStatus

KINDS = (
    "first better",
    "second better",
    "equal",
    "answers differ",
    "evidence differs",
    "failed in one",
    "no difference",
)
"""What cases are filtered by; a case may be of several kinds."""

COLUMNS = (
    TableColumn("question", "Case", "question"),
    TableColumn("score_1", "Run 1", "score"),
    TableColumn("score_2", "Run 2", "score"),
    TableColumn("change", "Difference", "signed"),
    TableColumn("status_1", "Status 1", "status"),
    TableColumn("status_2", "Status 2", "status"),
    TableColumn("differences", "Differing", "names"),
    TableColumn("cited_only_by_1", "Cited by 1 only", "names"),
    TableColumn("cited_only_by_2", "Cited by 2 only", "names"),
)

_FILTERED_OR_SORTED = (
    "score_1", "score_2", "change", "status_1", "status_2", "differences", "kinds"
)  # fmt: skip
_SIGNIFICANCE_LEVEL = 0.05
_NOT_REACHED = CaseSummary(
    id="",
    status=NOT_REACHED,
    error="",
    remarks=(),
    tokens=None,
    cost=None,
    seconds=0.0,
    sure=None,
    answer="",
    evidence=frozenset(),
)


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


class ComparedCase(NamedTuple):
    """A case in both runs: scores, how it ended, and what differs.

    `change` is the score of run 2 minus that of run 1, None unless both have one. `differences`
    names what differs: status, answer, evidence. `kinds` are the filters that the case falls under.
    """

    case_index: int
    id: str
    question: str
    score_1: float | None
    score_2: float | None
    change: float | None
    status_1: str
    status_2: str
    differences: tuple[str, ...]
    cited_only_by_1: tuple[str, ...]
    cited_only_by_2: tuple[str, ...]
    kinds: tuple[str, ...]
    error: str = ""

    @property
    def differs(self) -> bool:
        """Whether the runs differ on the case in its score, its answer or its evidence."""
        return bool(self.change or self.differences)

    @property
    def values(self) -> dict[str, Any]:
        """What rows of a page are sorted and filtered by, besides their text."""
        return filled_fields(self, _FILTERED_OR_SORTED)

    def as_json(self) -> dict[str, Any]:
        """The row as the page's script reads it."""
        return {**self._asdict(), "index": self.case_index}


class RunComparison(NamedTuple):
    """The comparison; `test_skipped_reason` is empty if the paired test could be made.

    `cases` are ordered by how much they differ. `counts` has the number of cases of each kind.
    """

    score_differences: tuple[ScoreDifference, ...]
    test_skipped_reason: str
    case_metric: str
    cases: tuple[ComparedCase, ...]
    counts: Mapping[str, int]


def compare_for_report(
    data_1: ReportData,
    data_2: ReportData,
    key: Path | None,
    *,
    text: bool = True,
) -> RunComparison:
    """Return what changes from run 1 to run 2, the largest changes first."""
    score_differences, test_skipped_reason = _test_scores(data_1, data_2, key)
    metric = data_1.case_metric
    cases = []
    counts: Counter[str] = Counter()
    for index, item in enumerate(data_1.run.cases):
        score_1 = data_1.per_case.get(item.id, {}).get(metric)
        score_2 = data_2.per_case.get(item.id, {}).get(metric)
        change = None
        if score_1 is not None and score_2 is not None:
            change = score_2 - score_1
        summary_1 = data_1.summaries.get(item.id, _NOT_REACHED)
        summary_2 = data_2.summaries.get(item.id, _NOT_REACHED)
        differences = []
        for name in ("status", "answer", "evidence"):
            if getattr(summary_1, name) != getattr(summary_2, name):
                differences.append(name)
        case = ComparedCase(
            case_index=index,
            id=strip_bidi(item.id),
            question=short_question(item) if text else "",
            score_1=score_1,
            score_2=score_2,
            change=change,
            status_1=summary_1.status,
            status_2=summary_2.status,
            differences=tuple(differences),
            cited_only_by_1=_sort_ids(item, summary_1.evidence - summary_2.evidence),
            cited_only_by_2=_sort_ids(item, summary_2.evidence - summary_1.evidence),
            kinds=(),
        )
        case = case._replace(kinds=tuple(_kinds(case)))
        counts.update(case.kinds)
        cases.append(case)
    # Equal ones stay in the order of the file.
    cases.sort(key=lambda case: len(case.differences), reverse=True)
    cases.sort(key=lambda case: abs(case.change or 0.0), reverse=True)
    return RunComparison(
        score_differences=score_differences,
        test_skipped_reason=test_skipped_reason,
        case_metric=metric,
        cases=tuple(cases),
        counts={kind: counts[kind] for kind in KINDS if counts[kind]},
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


def _kinds(case: ComparedCase) -> Iterator[str]:
    if case.change is not None:
        if case.change == 0:
            yield "equal"
        else:
            yield "second better" if case.change > 0 else "first better"
    if "answer" in case.differences:
        yield "answers differ"
    if "evidence" in case.differences:
        yield "evidence differs"
    statuses = (case.status_1, case.status_2)
    if statuses.count(CaseStatus.FAILED.value) == 1:
        yield "failed in one"
    if not case.differs:
        yield "no difference"


def _sort_ids(item: Item, ids: frozenset[str]) -> tuple[str, ...]:
    if isinstance(item, Case):
        return item.in_note_order(ids)
    return tuple(sorted(ids))
