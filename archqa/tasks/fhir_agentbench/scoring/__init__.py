"""Scores FHIR-AgentBench: answers and the resources they rest on."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from archqa.errors import CallerError
from archqa.tasks.fhir_agentbench.cases import FhirQuestion, load_questions
from archqa.tasks.fhir_agentbench.scoring import error_analysis
from archqa.tasks.fhir_agentbench.scoring.baselines import baselines
from archqa.tasks.fhir_agentbench.scoring.evaluation_files import write_evaluation
from archqa.tasks.fhir_agentbench.scoring.votes import JudgeVotes
from archqa.tasks.files.mistakes import printable
from archqa.tasks.row_checks import are_ids, is_id, repeated_ids
from archqa.tasks.scoring import Gold, ScoreSettings, ScoringBridge, ScoringInputs, ScoringRequest
from archqa.tasks.scoring.row_scorer import Rows, RowScorer
from archqa.tasks.scoring.score_report import ScoreReport
from scoring import Scores
from scoring.tasks import fhir_agentbench
from scoring.tasks.fhir_agentbench import Question


class FhirAgentBenchScoring(ScoringBridge):
    """Scores the benchmark's records, with a judge for answers that no rule decides."""

    plain_metric = "strict_recall"
    takes_judge = True

    def recognises_rows(self, rows: Sequence[Any], fields: frozenset[str]) -> bool:
        """Rows with a question id."""
        return "question_id" in fields

    def row_errors(self, rows: Sequence[Any]) -> Iterator[str]:
        """Records without a question id, with malformed resources, or that stand twice."""
        for index, row in enumerate(rows):
            if not isinstance(row, dict) or not is_id(row.get("question_id")):
                yield f"record {index}: no question_id."
                continue
            question_id = printable(str(row["question_id"]))
            for field in ("agent_fhir_resources", "cited_fhir_resources"):
                if not _are_resources(row.get(field)):
                    yield f'question {question_id}: {field} must read {{"Observation": ["id", "id"]}}.'
        yield from repeated_ids(rows, "question_id", "answered")

    def row_scorer(self, inputs: ScoringInputs) -> RowScorer:
        """Scores rows without a judge."""
        questions = map(to_scoring_question, load_gold(inputs).references)
        return RowScorer({question.question_id: question for question in questions}, _score_rows)

    def score(self, request: ScoringRequest) -> ScoreReport:
        """Score answers and resources; with a judge, also the answers that no rule decides."""
        gold = load_gold(request.inputs)
        questions = [to_scoring_question(question) for question in gold.references]
        rows = request.selected_rows(gold.selection, "question_id")
        settings: dict[str, Any] = {**request.settings.resampling}
        settings["metrics"] = request.settings.metrics

        def score(**overrides: Any) -> Scores:
            return fhir_agentbench.score(rows, questions, **{**settings, **overrides})

        votes = None
        if request.judge and _scores_answers(request.settings):
            # Malformed rows must show before a model is paid.
            self.compute(request, lambda **overrides: score(**{"bootstrap": 0, **overrides}))
            votes = JudgeVotes(request.judge, rows, questions)
            settings["judge"] = votes
            settings["judge_name"] = request.judge.name
            settings["votes"] = request.judge.votes
        scores = self.compute(request, score)
        if request.official_path:
            write_evaluation(request.official_path, scores, request.submission, gold.references)
        error_tags = _error_tags(questions, rows, scores)
        scores.tables["by_failure"] = error_analysis.error_table(error_tags, len(questions))
        faults = {}
        for question_id, tags in error_tags.items():
            if tags:
                faults[question_id] = {"tags": tags}
        report = self.report(request, gold, scores, baselines(questions))
        report = replace(report, faults=faults)
        if votes is None:
            return report
        return _with_votes(report, votes)


BRIDGE = FhirAgentBenchScoring()


def load_gold(inputs: ScoringInputs) -> Gold[FhirQuestion]:
    """The questions with their gold. Raises `CallerError` if no file was named, `InputError`."""
    path = inputs.key or inputs.case_file
    if path is None:
        raise CallerError(
            "These answers are scored against the benchmark's questions.\n"
            "Name their file with --key FILE."
        )
    file = load_questions(path)
    selection = inputs.select_cases(question.question_id for question in file.questions)
    questions = []
    for question in file.questions:
        if question.question_id not in selection.excluded:
            questions.append(question)
    return Gold(questions, [], {"key": file.sha256}, selection, path)


def to_scoring_question(question: FhirQuestion) -> Question:
    """A question as `scoring` takes it."""
    resources = {kind: list(ids) for kind, ids in question.true_fhir_ids.items()}
    return Question(
        question.question_id,
        question.question,
        question.true_answer,
        resources,
        question.template,
    )


def _score_rows(
    rows: Rows, questions: Sequence[Question], metrics: tuple[str, ...] | None
) -> Scores:
    return fhir_agentbench.score(rows, questions, metrics=metrics, bootstrap=0)


def _scores_answers(settings: ScoreSettings) -> bool:
    if settings.metrics is None:
        return True
    return any(name.startswith("answer_correctness") for name in settings.metrics)


def _error_tags(
    questions: Sequence[Question], rows: Sequence[Any], scores: Scores
) -> dict[str, list[str]]:
    """Question id → what went wrong; empty unless answers and resources were both scored."""
    if not {"answer_correctness", "strict_recall"} <= scores.tallies.keys():
        return {}
    by_id = {str(row["question_id"]): row for row in rows}
    correctness = scores.tallies["answer_correctness"]
    tags = {}
    for question, tally in zip(questions, correctness, strict=True):
        question_id = question.question_id
        recall = scores.per_case[question_id]["strict_recall"]
        has_all_resources = recall == 1 or not question.resources
        verdict = error_analysis.Verdict(bool(tally[0]), has_all_resources)
        row = by_id.get(question_id)
        tags[question_id] = error_analysis.error_tags(question, row, verdict)
    return tags


def _with_votes(report: ScoreReport, votes: JudgeVotes) -> ScoreReport:
    report.scores.warnings.extend(votes.warnings)
    return replace(report, disagreements=tuple(votes.disagreements), judge_usage=votes.usage)


def _are_resources(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, dict) and all(map(are_ids, value.values()))
