"""The table of a run's cases: one row a case, the worst first."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from archqa.core.case import Case
from archqa.core.question import ClinicalTask, Item
from archqa.core.value import JsonObject
from archqa.report.page import shorten, strip_bidi
from archqa.report.report_data import ReportData
from archqa.runs.record import CaseStatus

NOT_REACHED = "not reached"
_MAX_QUESTION_LENGTH = 220
_MAX_ERROR_LENGTH = 300


class TableColumn(NamedTuple):
    """A column: the field of a row, its heading, and how its values are written."""

    key: str
    heading: str
    kind: str


_COLUMNS = (
    TableColumn("question", "Case", "question"),
    TableColumn("specialty", "Specialty", "text"),
    TableColumn("status", "Status", "status"),
    TableColumn("score", "Score", "score"),
    TableColumn("sure", "Sure", "share"),
    TableColumn("tokens", "Tokens", "count"),
    TableColumn("cost", "Cost", "cost"),
    TableColumn("seconds", "Time", "seconds"),
    TableColumn("reviewed_by", "Reviewed", "names"),
)
_FULL_COLUMNS = frozenset({"question", "status"})
_OPTIONAL_COLUMNS = frozenset({"specialty", "sure", "tokens", "cost", "seconds"})
_FILTERED_OR_SORTED = (
    "status", "specialty", "score", "sure", "tokens", "cost", "seconds", "review"
)  # fmt: skip


class ReviewMark(NamedTuple):
    """Who has reviewed a case, and whether reviewers differ and nobody has decided."""

    reviewers: tuple[str, ...] = ()
    disagreement: bool = False


class CaseRow(NamedTuple):
    """One case. `score` is None where the key does not have it; the other Nones are unknown.

    `tokens` is also None where no model was called. `remarks` counts the remarks.
    """

    case_index: int
    id: str
    question: str
    specialty: str
    status: str
    score: float | None
    sure: float | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    error: str = ""
    remarks: int = 0
    reviewed_by: tuple[str, ...] = ()
    disagreement: bool = False

    @property
    def review(self) -> str:
        """What reviewers have done: unreviewed, reviewed or disagreement."""
        if self.disagreement:
            return "disagreement"
        return "reviewed" if self.reviewed_by else "unreviewed"

    @property
    def values(self) -> JsonObject:
        """What rows of a page are sorted and filtered by, besides their text."""
        return filled_fields(self, _FILTERED_OR_SORTED)

    def as_json(self) -> JsonObject:
        """The row as the page's script reads it."""
        return {**self._asdict(), "index": self.case_index, "review": self.review}


def case_rows(
    data: ReportData,
    review_mark: Callable[[str], ReviewMark] | None,
    *,
    text: bool,
) -> tuple[CaseRow, ...]:
    """Return a row for each case, the worst first; `review_mark` says who has reviewed a case.

    Without `text`, the rows hold no text of the record.
    """
    scores = data.case_scores
    rows = []
    for index, item in enumerate(data.run.cases):
        row = CaseRow(
            case_index=index,
            id=strip_bidi(item.id),
            question=short_question(item) if text else "",
            specialty=specialty(item),
            status=NOT_REACHED,
            score=scores.get(item.id),
        )
        summary = data.summaries.get(item.id)
        if summary is not None:
            row = row._replace(
                status=summary.status,
                sure=summary.sure,
                tokens=summary.tokens,
                cost=summary.cost,
                seconds=summary.seconds,
                error=shorten(summary.error, _MAX_ERROR_LENGTH) if text else "",
                remarks=len(summary.remarks),
            )
        if review_mark:
            reviewers, disagreement = review_mark(item.id)
            row = row._replace(reviewed_by=reviewers, disagreement=disagreement)
        rows.append(row)
    return tuple(sorted(rows, key=_worst_first))


def _worst_first(row: CaseRow) -> tuple[float, bool, int]:
    """Return the key of the order: failed cases without a score lead, those not reached end it."""
    failed = row.status == CaseStatus.FAILED.value
    if row.score is not None:
        worth = row.score
    elif failed:
        worth = -1.0
    else:
        worth = math.inf
    return worth, not failed, row.case_index


def table_columns(rows: Iterable[CaseRow], *, reviews: bool) -> tuple[TableColumn, ...]:
    """Return the columns that have something to show: without a model, there are no tokens."""
    keys = set(_FULL_COLUMNS)
    if reviews:
        keys.add("reviewed_by")
    for row in rows:
        for name in _OPTIONAL_COLUMNS:
            if getattr(row, name) not in ("", None, 0):
                keys.add(name)
        if row.score is not None:
            keys.add("score")
    return tuple(column for column in _COLUMNS if column.key in keys)


def filled_fields(row: Any, names: Sequence[str]) -> JsonObject:
    """Return fields of a row by name, without those that are empty or unknown."""
    fields = {}
    for name in names:
        value = getattr(row, name)
        if value not in ("", None):
            fields[name] = value
    return fields


def specialty(item: Item) -> str:
    """Return the specialty of a case; empty for questions and tasks on a record."""
    return item.clinical_specialty if isinstance(item, Case) else ""


def specialties(items: Iterable[Item]) -> tuple[str, ...]:
    """Return the specialties of the cases in alphabetical order."""
    return tuple(sorted(set(map(specialty, items)) - {""}))


def question_text(item: Item) -> str:
    """Return the text that asks an item's question, without characters that turn its direction."""
    if isinstance(item, Case):
        text = item.clinician_question or item.patient_narrative
    elif isinstance(item, ClinicalTask):
        text = item.instruction
    else:
        text = item.question
    line = " ".join(text.split())
    return line if line.isascii() else strip_bidi(line)


def short_question(item: Item) -> str:
    """Return the question of an item as a row has it."""
    return shorten(question_text(item), _MAX_QUESTION_LENGTH)
