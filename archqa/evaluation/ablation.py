"""Reproduces the paper's comparisons: Table 1 (labels, experts, context) and Table 2 (answer strategies)."""

from pathlib import Path
from typing import Any, NamedTuple

from archqa import tasks
from archqa.evaluation.scoring import score
from archqa.llm.limits import Budget
from archqa.llm.model import CHARACTERS_PER_TOKEN
from archqa.runs.cost_estimate import CostEstimate, estimate_variants
from archqa.runs.destinations import Announce
from archqa.runs.plan import Selection, plan_run
from archqa.runs.predict import OnStart, predict
from archqa.runs.run import Run
from archqa.runs.runner import OnCase
from archqa.settings import Settings

_RELEVANCE = (
    "bleu",
    "rougeLsum",
    "sari",
    "bertscore",
    "alignscore",
    "medcon",
    "overall_relevance_score",
)

COLUMNS = {
    1: ("strict_micro_precision", "strict_micro_recall", "strict_micro_f1"),
    2: _RELEVANCE,
}


class Variant(NamedTuple):
    """One row of a table: its name there, and its settings."""

    table: int
    name: str
    switches: dict[str, Any]

    @property
    def folder(self) -> str:
        """The row's run folder."""
        values = "-".join(map(str, self.switches.values()))
        return f"table{self.table}-{values.lower()}"


class Row(NamedTuple):
    """A variant's scores; those that could not be computed are in `missing` instead.

    `calls` and `cost_usd` are what was spent; replies that came from the cache, because an earlier
    variant had paid them, count in `calls_per_case` and `tokens_per_case` (characters / 4) alone.
    """

    table: int
    name: str
    run: Path
    scores: dict[str, float]
    missing: dict[str, str]
    calls: int
    cost_usd: float | None
    calls_per_case: float
    tokens_per_case: float

    def as_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {**self._asdict(), "run": str(self.run)}


def _table_1() -> list[Variant]:
    parts = {
        "w/ Experts": {"experts": True, "context": False},
        "w/ Context K": {"experts": False, "context": True},
        "w/ Experts + Context K": {"experts": True, "context": True},
    }
    variants = []
    for labels in ("multiclass", "binary"):
        for name, switches in parts.items():
            variants.append(
                Variant(1, f"{labels} {name}", {"labels": labels, **switches})
            )
    return variants


VARIANTS = (
    *_table_1(),
    Variant(2, "Questions + predicted sentences", {"strategy": "evidence"}),
    Variant(2, "Summary of predicted sentences", {"strategy": "summary"}),
)


_ADVICE = (
    "Raise --max-cost and run the same command again: it goes on where it stopped."
)


def estimate_ablation(
    cases: str, settings: Settings, limit: int | None
) -> CostEstimate:
    """The cost of all variants together; calls no model and writes nothing.

    Replies that variants share count once, where there is a cache. Raises as `predict` does.
    """
    file = tasks.load_cases_to_answer(cases, None)
    plans = []
    for variant in VARIANTS:
        switched = settings.replace(**variant.switches)
        plans.append(plan_run(file, None, Selection(limit=limit), switched))
    return estimate_variants(plans)


def ablate(
    cases: str,
    settings: Settings,
    *,
    key: Path | None,
    out: Path | None,
    limit: int | None,
    on_start: OnStart,
    on_case: OnCase,
    announce: Announce | None = None,
) -> list[Row]:
    """Run and score every variant in a run folder of its own below `out`; finished runs are reused.

    Raises as `predict`; `BudgetExceeded` when all variants together have spent `max_cost`.
    """
    out = out or Path("runs") / f"ablation-{Path(cases).stem}"
    max_cost = settings.limits.max_cost
    budget = None if max_cost is None else Budget(max_cost, _ADVICE)
    rows = []
    for variant in VARIANTS:
        switched = settings.replace(**variant.switches)
        run = predict(
            cases,
            out=out / variant.folder,
            resume=True,
            selection=Selection(limit=limit),
            settings=switched,
            on_start=on_start,
            on_case=on_case,
            announce=announce,
            budget=budget,
        )
        rows.append(_row(variant, run, key))
    return rows


def _row(variant: Variant, run: Run, key: Path | None) -> Row:
    scores = score(run.path, key=key).scores
    usage = run.usage
    calls = characters = 0
    for case in run.cases:
        for step in run.folder.steps(case.id):
            if step.messages:
                calls += 1
                characters += len(step.reply)
                characters += sum(len(message["content"]) for message in step.messages)
    count = len(run.cases)
    return Row(
        variant.table,
        variant.name,
        run.path,
        scores.scores,
        scores.missing,
        usage.calls,
        usage.cost_usd,
        calls / count,
        characters / CHARACTERS_PER_TOKEN / count,
    )
