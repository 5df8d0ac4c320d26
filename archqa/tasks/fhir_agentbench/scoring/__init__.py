"""Scores FHIR-AgentBench: answers and the resources they rest on."""

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from archqa.errors import CallerError
from archqa.safety.text import formula_free
from archqa.tasks.fhir_agentbench.scoring import error_analysis
from archqa.tasks.fhir_agentbench.task import FhirQuestion, load_questions
from archqa.tasks.files.mistakes import are_texts, printable
from archqa.tasks.scoring import (
    Gold,
    ScoringBridge,
    ScoringInputs,
    ScoringRequest,
    Submission,
    is_id,
    repeated_ids,
    unwritable,
    write_official_text,
)
from archqa.tasks.scoring.score_report import Baselines, Rows, RowScorer, ScoreReport
from scoring import Scores
from scoring.fhir_answers import (
    final_answer_text,
    is_correct,
    parse_gold_answer,
    parse_values,
    states_no_answer,
)
from scoring.tasks import fhir_agentbench
from scoring.tasks.fhir_agentbench import NO_ANSWER, Question

if TYPE_CHECKING:
    from archqa.tasks.scoring.judging import Judge

_SUMMARY_COLUMNS = (
    "date", "input_file", "output_eval_file", "fhir_resource_type", "questions", "precision", "recall", "f1_score",
    "accuracy",
)  # fmt: skip
_SUMMARY_SCORES = ("precision", "recall", "f1", "answer_correctness")
_COPIED_FIELDS = ("question_with_context", "agent_answer", "trace", "usage")


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
                resources = row.get(field)
                is_mapping = isinstance(resources, dict) and all(
                    map(are_texts, resources.values())
                )
                if resources is not None and not is_mapping:
                    yield f'question {question_id}: {field} must read {{"Observation": ["id", "id"]}}.'
        yield from repeated_ids(rows, "question_id", "answered")

    def row_scorer(self, inputs: ScoringInputs) -> RowScorer:
        """Scores rows without a judge."""
        questions = {}
        for question in load_gold(inputs).references:
            questions[question.question_id] = to_scoring_question(question)
        return RowScorer(questions, partial(fhir_agentbench.score, bootstrap=0))

    def score(self, request: ScoringRequest) -> ScoreReport:
        """Score answers and resources; with a judge, also the answers that no rule decides."""
        gold = load_gold(request.inputs)
        questions = list(map(to_scoring_question, gold.references))
        rows = request.selected_rows(gold.selection, "question_id")
        score = partial(
            fhir_agentbench.score,
            rows,
            questions,
            metrics=request.settings.metrics,
            **request.settings.resampling,
        )
        votes = None
        if request.judge and request.settings.includes("answer_correctness"):
            # Malformed rows must show before a model is paid.
            self.compute(request, partial(score, bootstrap=0))
            votes = JudgeVotes(request.judge, rows, questions)
            judge = request.judge
            score = partial(
                score, judge=votes, judge_name=judge.name, votes=judge.votes
            )
        scores = self.compute(request, score)
        if request.official_path:
            write_evaluation(
                request.official_path, scores, request.submission, gold.references
            )
        failures = _failures(questions, rows, scores)
        scores.tables["by_failure"] = error_analysis.error_table(
            failures, len(questions)
        )
        faults = {
            question_id: {"tags": tags}
            for question_id, tags in failures.items()
            if tags
        }
        report = replace(
            self.report(request, gold, scores, baselines(questions)), faults=faults
        )
        if votes is None:
            return report
        report.scores.warnings.extend(votes.warnings)
        return replace(
            report, disagreements=tuple(votes.disagreements), judge_usage=votes.usage
        )


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
    questions = [
        question
        for question in file.questions
        if question.question_id not in selection.excluded
    ]
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


def baselines(questions: Sequence[Question]) -> Baselines:
    """Scores of retrieving nothing and declining, and of the most frequent answer of a template."""

    def scores_of(answers: Mapping[str, str]) -> dict[str, float]:
        rows = []
        for question_id, answer in answers.items():
            rows.append({"question_id": question_id, "agent_answer": answer})
        scores: dict[str, float] = fhir_agentbench.score(
            rows, questions, bootstrap=0
        ).scores
        return scores

    declined = {}
    counts: dict[str, Counter[str]] = {}
    for question in questions:
        declined[question.question_id] = NO_ANSWER
        counts.setdefault(question.template, Counter())[question.reference] += 1
    scores = {"always_no_answer": scores_of(declined)}
    has_templates = any(counts)
    if has_templates:
        answers = {}
        for question in questions:
            # The template's other questions: a question's own answer does not count.
            other_answers = counts[question.template].copy()
            other_answers[question.reference] -= 1
            [(answer, count)] = other_answers.most_common(1)
            answers[question.question_id] = answer if count else NO_ANSWER
        scores["majority_per_template"] = scores_of(answers)
    return scores


def _failures(
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
        tags[question_id] = error_analysis.error_tags(
            question, by_id.get(question_id), verdict
        )
    return tags


class _Reply(NamedTuple):
    """A reply that no rule decides, as the judge reads it."""

    question: str
    reference: str
    reply: str


class _Ballots(NamedTuple):
    """The votes on one reply, and why; a vote is None where the model gave no usable ruling."""

    votes: list[bool | None]
    why: list[str]


class JudgeVotes:
    """A judge's votes on all replies that no rule decides, and those on which the votes differ.

    An instance is the `judge` argument of `scoring.tasks.fhir_agentbench.score`, which calls it
    once for each vote.
    """

    def __init__(
        self, judge: "Judge", rows: Rows, questions: Sequence[Question]
    ) -> None:
        from archqa.tasks.fhir_agentbench.agents import JudgeAgent, JudgeTask

        replies: dict[_Reply, None] = {}

        def collect(question: str, reference: str, reply: str) -> bool:
            replies[_Reply(question, reference, reply)] = None
            return False

        fhir_agentbench.score(
            rows, questions, judge=collect, metrics=["answer_correctness"], bootstrap=0
        )
        tasks = [JudgeTask(**reply._asdict()) for reply in replies]
        opinions, self.usage = judge.judge(JudgeAgent(), tasks)
        self._ballots: dict[_Reply, _Ballots] = {}
        self._votes: dict[_Reply, Iterator[bool]] = {}
        self.warnings: list[str] = []
        unusable = 0
        for reply, opinions_of_reply in zip(replies, opinions, strict=True):
            ballots = _Ballots([], [])
            for opinion in opinions_of_reply:
                ruling = opinion.output
                ballots.votes.append(ruling.correct if ruling else None)
                ballots.why.append(ruling.rationale if ruling else opinion.failure)
            unusable += ballots.votes.count(None)
            self._ballots[reply] = ballots
            self._votes[reply] = cycle(map(bool, ballots.votes))
        if unusable:
            self.warnings.append(
                f"{unusable} votes of the judge were unusable and count against the reply."
            )
        self.disagreements = list(self._disagreements(rows, questions))

    def __call__(self, question: str, reference: str, reply: str) -> bool:
        """The next vote on this reply."""
        return next(self._votes[_Reply(question, reference, reply)])

    def _disagreements(
        self, rows: Rows, questions: Sequence[Question]
    ) -> Iterator[dict[str, Any]]:
        """Replies with split or unusable votes, or whose majority differs from the strict comparison."""
        by_id = {question.question_id: question for question in questions}
        for row in rows:
            question = by_id.get(str(row["question_id"]))
            if question is None or row.get("error"):
                continue
            answer = row.get("agent_answer")
            reply = _Reply(question.question, question.reference, str(answer))
            ballots = self._ballots.get(reply)
            if ballots is None:
                continue
            votes = ballots.votes
            majority = sum(map(bool, votes)) * 2 > len(votes)
            is_unanimous = len(set(votes)) == 1 and None not in votes
            gold = parse_gold_answer(question.true_answer)
            strict = is_correct(
                question.question,
                gold,
                answer,
                no_answer=not question.resources,
                strict=True,
            )
            if is_unanimous and strict in {None, majority}:
                continue
            yield {
                "question_id": question.question_id,
                "reference": reply.reference,
                "reply": reply.reply,
                "votes": votes,
                "counted": majority,
                "strict_comparer": strict,
                "why": ballots.why,
            }


def write_evaluation(
    path: Path,
    scores: Scores,
    submission: Submission,
    questions: Sequence[FhirQuestion],
) -> None:
    """Write the benchmark's own evaluation file, and append to `performance_summary.csv` next to it.

    One record a question, readable by its owner only. `agent_answer_normalized` is by our rules,
    where the benchmark asks a model. Scores that were not computed are null.
    """
    rows = {str(row["question_id"]): row for row in submission.rows}
    records = []
    for index, question in enumerate(questions):
        row = rows.get(question.question_id, {})
        correctness = None
        if "answer_correctness" in scores.tallies:
            correctness = int(scores.tallies["answer_correctness"][index][0])
        record = {
            "question_id": question.question_id,
            "question": question.question,
            "assumption": question.assumption,
            "true_answer": question.true_answer,
            **{name: row.get(name) for name in _COPIED_FIELDS},
            "answer_correctness": correctness,
            "true_answer_extracted": question.true_answer
            if question.true_fhir_ids
            else NO_ANSWER,
            "agent_answer_normalized": _normalised(row.get("agent_answer")),
            "precision": _value_if_defined(scores, "precision", index, 0),
            "recall": _value_if_defined(scores, "recall", index, 2),
            "true_fhir_resource_types": sorted(question.true_fhir_ids),
            "template": question.template,
        }
        records.append(record)
    write_official_text(path, json.dumps(records, ensure_ascii=False, indent=2) + "\n")
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    files = [formula_free(submission.path.name), formula_free(path.name)]
    overall: dict[str, float] = {"questions": scores.cases, **scores.scores}
    summary_path = path.with_name("performance_summary.csv")
    try:
        is_new = not summary_path.is_file() or not summary_path.stat().st_size
        with summary_path.open("a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow(_SUMMARY_COLUMNS)
            for name, row in {
                "Overall": overall,
                **scores.tables["by_resource_type"],
            }.items():
                values = [row.get(score, "") for score in _SUMMARY_SCORES]
                writer.writerow(
                    [now, *files, formula_free(name), int(row["questions"]), *values]
                )
    except OSError as error:
        raise unwritable(summary_path, error) from None


def _value_if_defined(
    scores: Scores, name: str, index: int, column: int
) -> float | None:
    """One question's precision or recall; None where the benchmark excludes it from the mean."""
    if name not in scores.tallies:
        return None
    value, is_defined = scores.tallies[name][index][column : column + 2]
    return float(value) if is_defined else None


def _normalised(reply: Any) -> str:
    if reply is None:
        return NO_ANSWER
    if isinstance(reply, str):
        text = final_answer_text(reply)
        if states_no_answer(text) or parse_values(text) == []:
            return NO_ANSWER
    return "question answered"
