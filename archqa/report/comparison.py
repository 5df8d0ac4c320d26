"""Two runs of the same cases: the paired test, and the cases and citations that differ."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from archqa.core.case import Case
from archqa.core.question import Item
from archqa.errors import ArchqaError
from archqa.evaluation.comparison import compare_runs
from archqa.report.case_rows import NOT_REACHED, TableColumn, question_text
from archqa.report.page import shorten, strip_bidi
from archqa.report.record_summaries import RecordSummary
from archqa.report.report_data import ReportData
from archqa.report.scoreboard import case_metric_name
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

_SIGNIFICANCE_LEVEL = 0.05
_MAX_QUESTION_LENGTH = 220
_FAILED = CaseStatus.FAILED.value
_NOT_REACHED = RecordSummary("", NOT_REACHED, "", (), None, None, 0.0, None, "", frozenset())


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
        names = ("score_1", "score_2", "change", "status_1", "status_2", "differences", "kinds")
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value not in ("", None)}

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

    @property
    def case_differences(self) -> tuple[ComparedCase, ...]:
        """The cases that differ."""
        return tuple(case for case in self.cases if case.differs)


def compare_for_report(
    data_1: ReportData, data_2: ReportData, key: Path | None, *, text: bool = True
) -> RunComparison:
    """Return what changes from run 1 to run 2, the largest changes first."""
    score_differences, test_skipped_reason = _test_scores(data_1, data_2, key)
    cases = sorted(_compare_cases(data_1, data_2, text=text), key=_largest_change_first)
    counts = Counter(kind for case in cases for kind in case.kinds)
    return RunComparison(
        score_differences=score_differences,
        test_skipped_reason=test_skipped_reason,
        case_metric=case_metric_name(data_1),
        cases=tuple(cases),
        counts={kind: counts[kind] for kind in KINDS if counts[kind]},
    )


def _largest_change_first(case: ComparedCase) -> tuple[float, int, int]:
    return -abs(case.change or 0.0), -len(case.differences), case.case_index


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


def _compare_cases(data_1: ReportData, data_2: ReportData, *, text: bool) -> Iterator[ComparedCase]:
    metric = case_metric_name(data_1)
    for index, item in enumerate(data_1.run.cases):
        score_1 = data_1.per_case.get(item.id, {}).get(metric)
        score_2 = data_2.per_case.get(item.id, {}).get(metric)
        has_both = score_1 is not None and score_2 is not None
        summary_1 = data_1.summaries.get(item.id, _NOT_REACHED)
        summary_2 = data_2.summaries.get(item.id, _NOT_REACHED)
        case = ComparedCase(
            case_index=index,
            id=strip_bidi(item.id),
            question=shorten(question_text(item), _MAX_QUESTION_LENGTH) if text else "",
            score_1=score_1,
            score_2=score_2,
            change=(score_2 or 0.0) - (score_1 or 0.0) if has_both else None,
            status_1=summary_1.status,
            status_2=summary_2.status,
            differences=_differences(summary_1, summary_2),
            cited_only_by_1=_in_order(item, summary_1.evidence - summary_2.evidence),
            cited_only_by_2=_in_order(item, summary_2.evidence - summary_1.evidence),
            kinds=(),
        )
        yield case._replace(kinds=tuple(_kinds(case)))


def _differences(summary_1: RecordSummary, summary_2: RecordSummary) -> tuple[str, ...]:
    differences = []
    for name in ("status", "answer", "evidence"):
        if getattr(summary_1, name) != getattr(summary_2, name):
            differences.append(name)
    return tuple(differences)


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
    if (case.status_1 == _FAILED) != (case.status_2 == _FAILED):
        yield "failed in one"
    if not case.differs:
        yield "no difference"


def _in_order(item: Item, ids: frozenset[str]) -> tuple[str, ...]:
    if isinstance(item, Case):
        return item.in_note_order(ids)
    return tuple(sorted(ids))
