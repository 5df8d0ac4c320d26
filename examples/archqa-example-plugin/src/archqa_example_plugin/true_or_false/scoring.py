"""How the task is scored."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from archqa.tasks.scoring import Gold, ScoreReport, ScoringBridge, ScoringRequest
from scoring import Metric, Scores
from scoring.scores import add_metric


@dataclass(frozen=True, kw_only=True)
class StatementAccuracy(Metric[bool]):
    """Percent of statements that are held to be what they are."""

    name = "statement_accuracy"

    @property
    def width(self) -> int:
        """Right ones, and all."""
        return 2

    def tally(self, case: bool) -> tuple[float, ...]:
        """Whether one statement was judged rightly."""
        return float(case), 1.0

    def value(self, total: Any) -> Any:
        """Percent."""
        return 100 * total[..., 0] / total[..., 1]


class TrueOrFalseScoring(ScoringBridge):
    """Scores rows `{"statement_id", "held"}` by the `is_true` of the case file."""

    def recognises_rows(self, rows: Sequence[Any], fields: frozenset[str]) -> bool:
        """Rows with an id of a statement."""
        return "statement_id" in fields

    def score(self, request: ScoringRequest) -> ScoreReport:
        """The accuracy, beside that of holding everything to be true."""
        statements = json.loads(request.inputs.case_file.read_text(encoding="utf-8"))
        truth = {row["statement_id"]: row["is_true"] for row in statements}
        selection = request.inputs.select_cases(truth)
        held = {row["statement_id"]: row["held"] for row in request.submission.rows}
        right = {each: held.get(each) == truth[each] for each in selection.ids}
        scores = Scores("true-or-false", cases=len(right))
        metric = StatementAccuracy(
            bs=request.settings.bootstrap, seed=request.settings.seed
        )
        add_metric("statement_accuracy", metric, right, scores)
        gold = Gold(list(truth), [], {}, selection)
        all_true = 100 * sum(truth[each] for each in selection.ids) / len(right)
        baselines = {"all_true": {"statement_accuracy": all_true}}
        return self.report(request, gold, scores, baselines)


BRIDGE = TrueOrFalseScoring()
