"""Scores rows of a submission that are in memory, over all cases of a task or over some."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from scoring import Scores

Rows = Sequence[Mapping[str, Any]]


class RowScorer(NamedTuple):
    """The references of a task by case id, and the function that scores rows against some of them.

    `case_metrics` are the metrics of a single case; None for all.
    """

    references: Mapping[str, Any]
    score: Callable[[Rows, Sequence[Any], tuple[str, ...] | None], Scores]
    case_metrics: tuple[str, ...] | None = None

    def scores(self, rows: Rows, case_ids: Iterable[str]) -> Scores:
        """The scores of rows over these cases; those without a row count as unanswered."""
        return self.score(rows, self._references(case_ids), None)

    def case_scores(self, rows: Rows, case_id: str) -> dict[str, float]:
        """The scores of one case by name."""
        return self.score(rows, self._references([case_id]), self.case_metrics).scores

    def _references(self, case_ids: Iterable[str]) -> list[Any]:
        wanted = set(case_ids)
        return [reference for name, reference in self.references.items() if name in wanted]
