"""Where a run meets the rulers: what was handed in, what is held to be true, and the official numbers of both.

Only this file and its neighbours (`gold`, `gold_2026`, `beside`, `failures`, `judges`, `official` …) know both archqa
and `scoring`.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from archqa.core.usage import Usage
from archqa.engine import Engine, case_digest
from archqa.errors import CallerError, InputError
from archqa.evaluation import baselines, references, references_2026
from archqa.evaluation.judges import JudgePanel, JudgeVotes
from archqa.evaluation.official_files import (
    write_evaluation,
    write_leaderboard,
    write_lines,
    write_score_details,
)
from archqa.evaluation.submissions import Submission, open_submission
from archqa.runs.run import Run
from archqa.tasks.fhir_agentbench import error_analysis
from archqa.tasks.medagentbench.files import overall
from archqa.tasks.medagentbench.scoring import score_clinical
from scoring import Comparison, Scores, ScoringError, compare, known_metrics
from scoring.tasks import archehr2025, archehr2026, fhir_agentbench, medagentbench

__all__ = [
    "JudgePanel",
    "ScoreReport",
    "ScoreSettings",
    "compare_runs",
    "metric_availability",
    "metric_names",
    "score",
]

_QUOTED = re.compile(r"""(['"])((?:(?!\1).){40})(?:(?!\1).)+\1""")


class ScoreSettings(NamedTuple):
    """How to score; the defaults are the official rules with the reference in note order."""

    metrics: tuple[str, ...] | None = None
    reference_order: str = "note"
    bootstrap: int = 1000
    seed: int = 12345
    quickumls_path: Path | None = None
    alignscore_path: Path | None = None
    bertscore_model: str | None = None
    grading: Literal["official", "clinical", "both"] = "both"

    @property
    def common(self) -> dict[str, Any]:
        """What every ruler takes."""
        return {"bootstrap": self.bootstrap, "seed": self.seed}

    @property
    def of_texts(self) -> dict[str, Any]:
        """What the rulers of texts take."""
        models = ("quickumls_path", "alignscore_path", "bertscore_model")
        return {
            **self.common,
            "metrics": self.metrics,
            **{name: getattr(self, name) for name in models},
        }


class ScoreReport(NamedTuple):
    """Scores beside what they should be read against. `baselines` maps a name to its scores.

    `disagreements` are the replies on which judges were not of one mind, `disagreements_path` is where they were
    written; `judging` is what the judge cost; `faults` maps questions and tasks to what went wrong.
    """

    scores: Scores
    baselines: dict[str, dict[str, float]]
    fingerprints: dict[str, str]
    disagreements: tuple[dict[str, Any], ...] = ()
    disagreements_path: Path | None = None
    judge_usage: Usage | None = None
    faults: dict[str, dict[str, Any]] | None = None

    def as_json(self) -> dict[str, Any]:
        """The object that `archqa score --json` prints."""
        faults = {} if self.faults is None else {"faults": self.faults}
        return {
            **self.scores.as_json(),
            "baselines": self.baselines,
            "fingerprints": self.fingerprints,
            **faults,
        }


class _Asked(NamedTuple):
    submission: Submission
    files: references.ScoringInputs
    settings: ScoreSettings
    panel: JudgePanel | None
    official: Path | None
    keep: bool


def score(
    target: str | Path,
    *,
    task: str | None = None,
    key: Path | None = None,
    data: Path | None = None,
    second_key: Path | None = None,
    record: str | None = None,
    case_ids: tuple[str, ...] = (),
    judge: JudgePanel | None = None,
    official: Path | None = None,
    settings: ScoreSettings | None = None,
    keep: bool = True,
) -> ScoreReport:
    """Score a run folder or a submission file. A run knows its data; a bare file needs `data` or `key`.

    `record` is what MedAgentBench's conversations are graded against; `task` names the task where rows do not tell it;
    `case_ids` (`121-167 5`) narrows the key; `judge` decides
    FHIR-AgentBench replies that no rule does; `official` is where to write the organisers' file. Writes `scores.json`
    into a run folder, and `disagreements.jsonl` beside the scores where a judge was not of one mind, unless `keep` is
    False: those who only look leave no trace. Raises
    `InputError` for files that are absent, malformed or do not belong together, `CallerError` for an unknown task or
    metric or a file that was not named, `ModelError` if the judge cannot be asked.
    """
    submission = open_submission(Path(target), task)
    if judge is not None and submission.task != fhir_agentbench.TASK:
        raise CallerError(f"A judge decides answers of FHIR-AgentBench, not of {submission.task}.")
    files = references.ScoringInputs(key, data, second_key, case_ids, submission.run, record)
    asked = _Asked(submission, files, settings or ScoreSettings(), judge, official, keep)
    report = _RULERS[submission.task](asked)
    return _leave(report, asked) if keep else report


def compare_runs(
    first: str | Path,
    second: str | Path,
    *,
    key: Path | None = None,
    metrics: tuple[str, ...] | None = None,
    method: str = "paired-bootstrap",
) -> dict[str, Comparison]:
    """A paired test of two runs of the same cases, score by score (`scoring.compare`). Raises as `score` does."""
    settings = ScoreSettings(metrics=metrics)
    one, two = (
        score(path, key=key, settings=settings, keep=False).scores for path in (first, second)
    )
    try:
        return compare(one, two, method)
    except ScoringError as error:
        raise CallerError(str(error)) from None


def metric_availability() -> dict[str, str | None]:
    """Every metric of the leaderboard of 2025: None where it can run here, else what to install."""
    return {
        name: metric.availability() for name, metric in archehr2025.leaderboard_metrics().items()
    }


def metric_names() -> list[str]:
    """The names `--metric` takes."""
    return sorted({*known_metrics(), *archehr2025.leaderboard_metrics()})


def _archehr_2025(asked: _Asked) -> ScoreReport:
    held = references.archehr_2025(asked.files)
    rows = _of(asked, held, "case_id")
    settings = {**asked.settings.of_texts, "reference_order": asked.settings.reference_order}
    scores = _ruled(
        asked, lambda **how: archehr2025.score(rows, held.references, **{**settings, **how})
    )
    scores.warnings.extend(_fitted_cases(asked.submission.run))
    if asked.official:
        write_leaderboard(asked.official, scores)
    return _report(asked, held, scores, baselines.archehr_2025(held))


def _fitted_cases(run: Run | None) -> list[str]:
    """A warning where the embedded engine judged cases it was fitted on."""
    if run is None or not any(mind.startswith("embedded:") for mind in run.manifest.minds.values()):
        return []
    fitted = set(Engine.load().fitted_on)
    seen = sum(case_digest(case) in fitted for case in run.notes)
    what = f"{seen} of {len(run.cases)} cases were in the fit of the embedded engine: these scores flatter it."
    return [what] if seen else []


def _archehr_2026(asked: _Asked) -> ScoreReport:
    subtask = archehr2026.SUBTASKS[asked.submission.task]
    held = references_2026.load_gold(asked.files, subtask)
    rows = _of(asked, held, "case_id")
    settings = {**asked.settings.of_texts, "subtask": subtask}
    scores = _ruled(
        asked, lambda **how: archehr2026.score(rows, held.references, **{**settings, **how})
    )
    if asked.official:
        write_leaderboard(asked.official, scores)
    return _report(asked, held, scores, baselines.archehr_2026(held, subtask))


def _fhir_agentbench(asked: _Asked) -> ScoreReport:
    held = references.fhir(asked.files)
    questions = [references.to_scoring_question(each) for each in held.references]
    rows = _of(asked, held, "question_id")
    settings: dict[str, Any] = {**asked.settings.common, "metrics": asked.settings.metrics}

    def ruler(**how: Any) -> Scores:
        return fhir_agentbench.score(rows, questions, **{**settings, **how})

    panel = asked.panel if _wants_judge(asked.settings) else None
    verdicts = None
    if panel:
        _ruled(
            asked, lambda **how: ruler(**{"bootstrap": 0, **how})
        )  # What is wrong shows before anything is paid.
        verdicts = JudgeVotes(panel, rows, questions)
        settings |= {"judge": verdicts, "judge_name": panel.name, "votes": panel.votes}
    scores = _ruled(asked, ruler)
    if asked.official:
        write_evaluation(asked.official, scores, asked.submission, held.references)
    found = _failures(questions, rows, scores)
    scores.tables["by_failure"] = error_analysis.error_table(found, len(questions))
    faults = {question: {"tags": tags} for question, tags in found.items() if tags}
    report = _report(asked, held, scores, baselines.fhir_agentbench(questions))._replace(
        faults=faults
    )
    if verdicts is None:
        return report
    scores.warnings.extend(verdicts.warnings)
    return report._replace(disagreements=tuple(verdicts.disagreements), judge_usage=verdicts.usage)


def _failures(
    questions: list[fhir_agentbench.Question], rows: list[Any], scores: Scores
) -> dict[str, list[str]]:
    """Question id → what went wrong; empty unless answers and resources were both scored."""
    answered, recalled = (
        scores.tallies.get("answer_correctness"),
        scores.tallies.get("strict_recall"),
    )
    if answered is None or recalled is None:
        return {}
    by_id = {str(row["question_id"]): row for row in rows}
    return {
        each.question_id: error_analysis.error_tags(
            each,
            by_id.get(each.question_id),
            error_analysis.Verdict(
                bool(answered[place][0]),
                scores.per_case[each.question_id]["strict_recall"] == 1 or not each.resources,
            ),
        )
        for place, each in enumerate(questions)
    }


def _medagentbench(asked: _Asked) -> ScoreReport:
    if asked.settings.metrics is not None:
        raise CallerError("MedAgentBench's rates come together.\nLeave --metric out.")
    held = references.medagentbench(asked.files)
    rows = _of(asked, held, "task_id")
    run = asked.submission.run
    found = score_clinical(
        rows,
        held.references,
        asked.settings.grading,
        asked.settings.common,
        record=asked.files.record or (run.manifest.settings.get("record") if run else None),
        pipeline=run.manifest.pipeline if run else "",
    )
    if asked.keep and run and found.graded:
        run.folder.write_json(
            "overall.json", overall(rows, len(run.manifest.case_ids), found.graded)
        )
    if asked.official:
        write_leaderboard(asked.official, found.scores)
    return _report(asked, held, found.scores, found.baselines)._replace(faults=found.faults)


_RULERS: dict[str, Callable[[_Asked], ScoreReport]] = {
    archehr2025.TASK: _archehr_2025,
    **dict.fromkeys(archehr2026.SUBTASKS, _archehr_2026),
    fhir_agentbench.TASK: _fhir_agentbench,
    medagentbench.TASK: _medagentbench,
}

_PLAIN_METRIC = {
    "archehr-2026-st1": "rouge1",
    "archehr-2026-st3": "rouge1",
    "archehr-2026-st4": "micro_f1",
    fhir_agentbench.TASK: "strict_recall",
}


def _wants_judge(settings: ScoreSettings) -> bool:
    return settings.metrics is None or any(
        name.startswith("answer_correctness") for name in settings.metrics
    )


def _of(asked: _Asked, held: references.Gold[Any], name: str) -> list[Any]:
    """The rows to score: where cases were chosen, those of the key's other cases are left aside."""
    left_out = held.chosen.left_out
    return [
        row
        for row in asked.submission.rows
        if not (isinstance(row, Mapping) and str(row.get(name)) in left_out)
    ]


def _ruled(asked: _Asked, ruler: Callable[..., Scores]) -> Scores:
    """What the ruler says. A refusal is the file's fault, unless the file passes with another metric."""
    try:
        return ruler()
    except ScoringError as error:
        lines = [_QUOTED.sub(r"\1\2…\1", line.strip()) for line in str(error).splitlines()]
    try:
        ruler(metrics=[_PLAIN_METRIC.get(asked.submission.task, "strict_micro_f1")], bootstrap=0)
    except ScoringError:
        mistakes = lines[1:] if len(lines) > 1 and lines[0].endswith(":") else lines
        raise InputError(asked.submission.path, [f": {line}" for line in mistakes]) from None
    raise CallerError("\n".join(lines))


def _report(
    asked: _Asked,
    held: references.Gold[Any],
    scores: Scores,
    baselines: dict[str, dict[str, float]],
) -> ScoreReport:
    scores.warnings.extend(held.chosen.warnings)
    return ScoreReport(
        scores, baselines, {**held.fingerprints, "submission": asked.submission.sha256}
    )


def _leave(report: ScoreReport, asked: _Asked) -> ScoreReport:
    """Write down what stays: with the run, or beside the official file."""
    if asked.submission.run:
        asked.submission.run.folder.write_json("scores.json", report.as_json())
    if asked.official:
        write_score_details(asked.official, report.as_json())
    path = (
        asked.official.parent if asked.official else asked.submission.folder
    ) / "disagreements.jsonl"
    if not report.disagreements and not (
        asked.panel and path.exists()
    ):  # What an earlier judge left would mislead.
        return report
    write_lines(path, report.disagreements)
    return report._replace(disagreements_path=path)
