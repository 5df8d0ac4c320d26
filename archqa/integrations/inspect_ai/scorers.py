"""The scorer: archqa's scores of each sample, and of all samples together."""

from pathlib import Path
from typing import Any

from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState

from archqa import tasks
from archqa.evaluation.scoring import row_scorer, submitted_rows
from archqa.integrations.inspect_ai.solver import RECORD
from archqa.runs.record import CaseRecord
from archqa.tasks.task import CompletedCase

_ROWS = "rows"


@metric
def benchmark_scores(
    benchmark: str, cases: str, key: str | None = None, record: str | None = None
) -> Metric:
    """The scores of archqa over the samples, by the leaderboards' names.

    They are computed from the rows of all samples, as of a submission: a micro average is no mean
    over samples.
    """
    scoring = row_scorer(benchmark, Path(cases), _path(key), record)

    def compute(scores: list[SampleScore]) -> dict[str, float]:
        rows = []
        ids = []
        for sample in scores:
            rows += (sample.score.metadata or {}).get(_ROWS, [])
            ids.append(str(sample.sample_id))
        return dict(scoring.scores(rows, ids).scores) if ids else {}

    return compute


@scorer(metrics=[])
def archqa_scores(
    benchmark: str, cases: str, key: str | None = None, record: str | None = None
) -> Scorer:
    """The scores of each sample. A case without labels in the key is not scored."""
    scoring = row_scorer(benchmark, Path(cases), _path(key), record)
    items = {case.id: case for case in tasks.load_cases(cases, benchmark).cases}

    async def score(state: TaskState, target: Target) -> Score | None:
        case_id = str(state.sample_id)
        if case_id not in scoring.references or RECORD not in state.metadata:
            return None
        context = {"result_type": tasks.find(benchmark).result_type}
        ended = CaseRecord.model_validate(state.metadata[RECORD], context=context)
        rows = submitted_rows(benchmark, _completed(items[case_id], ended), tuple(items))
        value: Any = scoring.case_scores(rows, case_id)
        return Score(
            value=value,
            answer=state.output.completion,
            explanation="\n".join((*ended.remarks, ended.error)).strip() or None,
            metadata={_ROWS: rows, "status": ended.status.value},
        )

    return score


def _completed(item: Any, ended: CaseRecord) -> CompletedCase:
    return CompletedCase(item, ended.answer, ended.result, ended.error, ended.usage, ended.evidence)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
