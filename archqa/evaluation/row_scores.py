"""Scores rows of a submission that are in memory, of all cases of a benchmark or of some.

The functions are those that `score` calls, so that the numbers are the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archqa.errors import CallerError
from archqa.tasks import registry
from archqa.tasks.scoring import ScoringInputs
from archqa.tasks.task import CompletedCase, EndedRun
from scoring import Scores

Rows = Sequence[Mapping[str, Any]]
ScoreRows = Callable[[Rows, Sequence[Any], tuple[str, ...] | None], Scores]


class RowScorer(NamedTuple):
    """The references of a benchmark by case id, and the function that scores rows against some."""

    references: Mapping[str, Any]
    score: ScoreRows
    case_metrics: tuple[str, ...] | None

    def scores(self, rows: Rows, case_ids: Iterable[str]) -> Scores:
        """The scores of rows over these cases; those without a row count as unanswered."""
        return self.score(rows, self._references(case_ids), None)

    def case_scores(self, rows: Rows, case_id: str) -> dict[str, float]:
        """The scores of one case by name, fewer where its task shows fewer for a case."""
        return self.score(rows, self._references([case_id]), self.case_metrics).scores

    def _references(self, case_ids: Iterable[str]) -> list[Any]:
        wanted = set(case_ids)
        return [reference for name, reference in self.references.items() if name in wanted]


def row_scorer(
    task: str, cases: Path, key: Path | None = None, record: str | None = None
) -> RowScorer:
    """What scores rows of a task.

    Raises `CallerError` for a task that it cannot score and for a file that was not named,
    `InputError` for malformed files.
    """
    makers = {
        "archehr-2025": _archehr_2025,
        "fhir-agentbench": _fhir_agentbench,
        "medagentbench": _medagentbench,
    }
    if task not in makers:
        raise CallerError(f"{task} cannot be scored here.\nThere are: {', '.join(makers)}.")
    return makers[task](ScoringInputs(key=key, data=cases, record=record))


def submitted_rows(task: str, completed: CompletedCase, case_ids: Sequence[str]) -> list[Any]:
    """The rows that a run of these cases submits for one of them."""
    benchmark = registry.find(task)
    if benchmark.scoring().reads_submission_file:
        rows: list[Any] = benchmark.submission([completed])
        return rows
    run = EndedRun(Path(), "", tuple(case_ids), [completed])
    rows, _ = benchmark.scoring().rows_of_run(run)
    return rows


def _archehr_2025(inputs: ScoringInputs) -> RowScorer:
    from archqa.tasks.archehr_2025.scoring import load_gold
    from archqa.tasks.archehr_2025.task import CITATION_METRICS
    from scoring.tasks import archehr2025

    gold = load_gold(inputs)
    labelled = {each.case_id: each for each in gold.references if each.labels}

    def score(rows: Rows, references: Sequence[Any], metrics: tuple[str, ...] | None) -> Scores:
        return archehr2025.score(rows, references, metrics=metrics, bootstrap=0)

    return RowScorer(labelled, score, CITATION_METRICS)


def _fhir_agentbench(inputs: ScoringInputs) -> RowScorer:
    from archqa.tasks.fhir_agentbench.scoring import load_gold, to_scoring_question
    from scoring.tasks import fhir_agentbench

    questions = map(to_scoring_question, load_gold(inputs).references)

    def score(rows: Rows, references: Sequence[Any], metrics: tuple[str, ...] | None) -> Scores:
        return fhir_agentbench.score(rows, references, metrics=metrics, bootstrap=0)

    return RowScorer({question.question_id: question for question in questions}, score, None)


def _medagentbench(inputs: ScoringInputs) -> RowScorer:
    from archqa.tasks.medagentbench.scoring import load_gold
    from archqa.tasks.medagentbench.scoring.rates import score_clinical

    tasks = load_gold(inputs).references

    def score(rows: Rows, references: Sequence[Any], _: tuple[str, ...] | None) -> Scores:
        options = {"bootstrap": 0}
        result = score_clinical(
            rows, references, "both", options, record=inputs.record, pipeline=""
        )
        return result.scores

    return RowScorer({task.id: task for task in tasks}, score, None)
