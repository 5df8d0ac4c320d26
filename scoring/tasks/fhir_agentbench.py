"""FHIR-AgentBench (Lee et al., ML4H 2025): retrieval of the right resources and correct answers.

Official: glee4810/FHIR-AgentBench at bbb4290. Every score (0 to 1) has two forms: that of the
published code, and `strict_*` by the paper's formulas. Retrieval has two id sets: the retrieved
resources, and (`cited_*`) those that the answer cites.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Literal, NamedTuple

from ..errors import ScoringError
from ..fhir_answers import is_correct, parse_gold_answer
from ..metric import FloatArray, Metric, ratio
from ..resources import (
    ResourceF1,
    ResourceIds,
    ResourceMetric,
    ResourcePrecision,
    ResourceRecall,
    Retrieval,
)
from ..scores import Scores, add_metric
from ..values import DateValue
from .fhir_tables import score_tables
from .selection import OnMissing, check_case_coverage, select_metrics

TASK = "fhir-agentbench"
Judge = Callable[[str, str, str], bool]
"""(question, reference, reply) → whether the reply is right."""
Record = Mapping[str, Any]
NO_ANSWER = "no answer"
_FORMS: dict[str, dict[str, Any]] = {"": {"form": "official"}, "strict_": {"form": "strict"}}
_ID_SETS: dict[str, dict[str, Any]] = {"": {"ids": "retrieved"}, "cited_": {"ids": "cited"}}


@dataclass(frozen=True)
class Question:
    """A question and its gold: `true_answer` as in the benchmark's file, `resources` type → ids."""

    question_id: str
    question: str
    true_answer: str
    resources: dict[str, list[str]] = field(default_factory=dict)
    template: str = ""

    @property
    def reference(self) -> str:
        """What the official judge sees: the true answer, or "no answer" without gold resources."""
        return self.true_answer if self.resources else NO_ANSWER

    @property
    def kind(self) -> str:
        """The kind of answer: nothing, yes-or-count, number, time, text or list."""
        values = parse_gold_answer(self.true_answer)
        if not self.resources or not values or values == [None]:
            return "nothing"
        if len(values) > 1:
            return "list"
        value = values[0]
        if value in (0.0, 1.0):
            return "yes-or-count"
        if type(value) is float:
            return "number"
        return "time" if isinstance(value, DateValue) else "text"


class Verdict(NamedTuple):
    """Whether an answer is right, in both forms; `open` if neither rules nor a judge decided."""

    official: bool
    strict: bool
    open: bool


@dataclass(frozen=True, kw_only=True)
class AnswerCorrectness(Metric[Verdict]):
    """The share of questions answered correctly, 0 to 1.

    `judge` names the model that judged the replies that no rule could decide.
    """

    name = "answer_correctness"
    form: Literal["official", "strict"] = "official"
    judge: str = "none"
    votes: int = 1

    @property
    def width(self) -> int:
        """Right answers and questions."""
        return 2

    def tally(self, case: Verdict) -> tuple[float, ...]:
        """(1 if right, 1)."""
        is_right = case.official if self.form == "official" else case.strict
        return float(is_right), 1.0

    def value(self, total: FloatArray) -> FloatArray:
        """The share that is right."""
        return ratio(total[..., 0], total[..., 1])


def score(
    submission: Sequence[Record],
    questions: Sequence[Question],
    *,
    judge: Judge | None = None,
    judge_name: str = "model",
    votes: int = 1,
    metrics: Sequence[str] | None = None,
    bootstrap: int = 1000,
    seed: int = 12345,
    on_missing: OnMissing = "floor",
) -> Scores:
    """Scores (0 to 1) of the benchmark's output records over the questions of the key.

    submission: records with question_id, agent_answer, agent_fhir_resources {type: [ids]}, error,
    and cited_fhir_resources for the `cited_*` scores. judge: (question, reference, reply) → whether
    the reply is right; called `votes` times, and only where no rule is sure. Without a judge such
    replies count as wrong, with a warning. Raises ScoringError that lists every malformed record.
    """
    records = _read_records(submission)
    key = {question.question_id: question for question in questions}
    warnings = check_case_coverage(list(records), list(key), on_missing)
    scores = Scores(TASK, cases=len(key), warnings=warnings)
    verdicts = {}
    for question_id, question in key.items():
        record = records.get(question_id)
        verdicts[question_id] = _verdict(question, record, judge, votes, scores.disagreements)
    if judge is None:
        leaderboard = _leaderboard("none", 0, bootstrap, seed)
    else:
        leaderboard = _leaderboard(judge_name, votes, bootstrap, seed)
    requested = select_metrics(metrics, leaderboard, {})
    if not any("cited_fhir_resources" in record for record in records.values()):
        _drop_cited(requested, scores)
    for name, metric in requested.items():
        inputs = _metric_inputs(metric, key, records, verdicts)
        add_metric(name, metric, inputs, scores)
    _add_warnings(verdicts, records, judge is not None, scores)
    tables = score_tables(_case_groups(key), requested, scores)
    scores.tables.update(tables)
    return scores


def _leaderboard(judge: str, votes: int, bs: int, seed: int) -> dict[str, Metric[Any]]:
    common: dict[str, Any] = {"bs": bs, "seed": seed}
    families = {"precision": ResourcePrecision, "recall": ResourceRecall, "f1": ResourceF1}
    metrics: dict[str, Metric[Any]] = {}
    for (strict, form), (cited, ids) in product(_FORMS.items(), _ID_SETS.items()):
        for part, family in families.items():
            metrics[f"{strict}{cited}{part}"] = family(**form, **ids, **common)
    metrics["answer_correctness"] = AnswerCorrectness(judge=judge, votes=votes, **common)
    metrics["strict_answer_correctness"] = AnswerCorrectness(form="strict", votes=0, **common)
    return metrics


def _read_records(submission: Sequence[Record]) -> dict[str, Record]:
    mistakes: list[str] = []
    counts: Counter[str] = Counter()
    for index, record in enumerate(submission):
        mistakes.extend(_record_mistakes(index, record))
        if isinstance(record, Mapping):
            counts[str(record.get("question_id"))] += 1
    for question_id, count in counts.items():
        if count > 1:
            mistakes.append(f"question {question_id}: answered {count} times; keep one")
    if mistakes:
        raise ScoringError.from_mistakes("submission", mistakes)
    return {str(record["question_id"]): record for record in submission}


def _record_mistakes(index: int, record: object) -> Iterator[str]:
    if not isinstance(record, Mapping) or "question_id" not in record:
        yield f"record {index}: no question_id"
        return
    for name in ("agent_fhir_resources", "cited_fhir_resources"):
        if record.get(name) is not None and not _is_resources(record[name]):
            yield f"question {record['question_id']}: {name} must be {{type: [ids]}}"


def _is_resources(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    return all(isinstance(ids, list | tuple) for ids in value.values())


def _verdict(
    question: Question,
    record: Record | None,
    judge: Judge | None,
    votes: int,
    disagreements: list[Any],
) -> Verdict:
    """The verdict on a record; a missing record, an error and a missing reply are wrong."""
    failed = record is None or record.get("error")
    reply = record.get("agent_answer") if record and not failed else None
    if reply is None or "Input tokens exceeded" in str(reply):
        return Verdict(False, False, False)
    text = question.question
    gold = parse_gold_answer(question.true_answer)
    no_answer = not question.resources
    strict = is_correct(text, gold, reply, no_answer=no_answer, strict=True)
    official = is_correct(text, gold, reply, no_answer=no_answer)
    if official is not None or judge is None:
        is_open = official is None
        return Verdict(bool(official), bool(strict), is_open)
    decided = _ask_judge(question, str(reply), judge, votes, disagreements)
    return Verdict(decided, bool(strict), False)


def _ask_judge(
    question: Question,
    reply: str,
    judge: Judge,
    votes: int,
    disagreements: list[Any],
) -> bool:
    """The majority of the judge's votes; a tie is wrong. Split votes go to `disagreements`."""
    ballots = [judge(question.question, question.reference, reply) for _ in range(votes)]
    if len(set(ballots)) > 1:
        disagreement = {
            "question_id": question.question_id,
            "reference": question.reference,
            "reply": reply,
            "votes": ballots,
        }
        disagreements.append(disagreement)
    return sum(ballots) * 2 > len(ballots)


def _metric_inputs(
    metric: Metric[Any],
    key: Mapping[str, Question],
    records: Mapping[str, Record],
    verdicts: Mapping[str, Verdict],
) -> Mapping[str, Any]:
    """Question id → the metric's input: gold and predicted resources, or the verdict."""
    if not isinstance(metric, ResourceMetric):
        return verdicts
    name = "agent_fhir_resources" if metric.ids == "retrieved" else "cited_fhir_resources"
    retrievals = {}
    for question_id, question in key.items():
        predicted: ResourceIds | None = None
        if question_id in records:
            predicted = records[question_id].get(name) or {}
        retrievals[question_id] = Retrieval(question.resources, predicted)
    return retrievals


def _drop_cited(metrics: dict[str, Metric[Any]], scores: Scores) -> None:
    reason = "needs cited_fhir_resources in the records: the ids that each answer rests on."
    for name in list(metrics):
        if "cited_" in name:
            del metrics[name]
            scores.missing[name] = reason


def _add_warnings(
    verdicts: Mapping[str, Verdict],
    records: Mapping[str, Record],
    judged: bool,
    scores: Scores,
) -> None:
    undecided = sum(verdict.open for verdict in verdicts.values())
    if undecided:
        problem = f"{undecided} replies only a judge could decide"
        scores.warnings.append(f"{problem}; without one they count as wrong.")
    failed = sum(bool(record.get("error")) for record in records.values())
    if failed:
        scores.warnings.append(f"{failed} records ended in an error and count as wrong.")
    if judged and scores.disagreements:
        count = len(scores.disagreements)
        scores.warnings.append(f"the judge's votes were split on {count} replies.")


def _case_groups(key: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
    """Question id → table name → the group of the question."""
    groups = {}
    for question_id, question in key.items():
        resource_types = ", ".join(sorted(question.resources))
        groups[question_id] = {
            "by_resource_type": f"{{{resource_types}}}",
            "by_template": question.template or "(no template)",
            "by_answer_kind": question.kind,
            "by_gold_size": sum(map(len, question.resources.values())),
        }
    return groups
