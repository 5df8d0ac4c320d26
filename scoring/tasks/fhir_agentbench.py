"""FHIR-AgentBench (Lee et al., ML4H 2025): were the right resources retrieved, and is the answer right?

Official: glee4810/FHIR-AgentBench at bbb4290. Every score (0 to 1) comes in two forms: as the published code computes
it, and `strict_*` by the paper's formulas; and for two id sets: those retrieved, and (`cited_*`) those that the
answer rests on.
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
"""(question, reference, reply) → right or not."""
Record = Mapping[str, Any]
NO_ANSWER = "no answer"
_FORMS: dict[str, dict[str, Any]] = {"": {"form": "official"}, "strict_": {"form": "strict"}}
_ID_SETS: dict[str, dict[str, Any]] = {"": {"ids": "retrieved"}, "cited_": {"ids": "cited"}}


@dataclass(frozen=True)
class Question:
    """One question with its gold: `true_answer` as the benchmark's file prints it, `resources` as type → ids."""

    question_id: str
    question: str
    true_answer: str
    resources: dict[str, list[str]] = field(default_factory=dict)
    template: str = ""

    @property
    def reference(self) -> str:
        """What the official judge is shown: the true answer, or "no answer" where there are no gold resources."""
        return self.true_answer if self.resources else NO_ANSWER

    @property
    def kind(self) -> str:
        """What is asked for: nothing, yes-or-count, number, time, text or list."""
        values = parse_gold_answer(self.true_answer)
        if not self.resources or not values or values == [None]:
            return "nothing"
        if len(values) > 1:
            return "list"
        if values[0] in (0.0, 1.0):
            return "yes-or-count"
        return {float: "number", DateValue: "time"}.get(type(values[0]), "text")


class Verdict(NamedTuple):
    """Whether an answer is right in both forms; `open` where no rule was sure and no judge was asked."""

    official: bool
    strict: bool
    open: bool


@dataclass(frozen=True, kw_only=True)
class AnswerCorrectness(Metric[Verdict]):
    """The share of questions (0 to 1) answered correctly; `judge` names the model that decided what rules could not."""

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
        return float(case.official if self.form == "official" else case.strict), 1.0

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

    submission: records with question_id, agent_answer, agent_fhir_resources {type: [ids]}, error, and
    cited_fhir_resources for the `cited_*` scores. judge: (question, reference, reply) → right or not; asked `votes`
    times, and only where no rule is sure. Replies left open without one count as wrong, aloud. Raises ScoringError
    that lists every malformed record.
    """
    records = _read_records(submission)
    key = {question.question_id: question for question in questions}
    warnings = check_case_coverage(list(records), list(key), on_missing)
    scores = Scores(TASK, cases=len(key), warnings=warnings)
    verdicts = {}
    for question_id, question in key.items():
        record = records.get(question_id)
        verdicts[question_id] = _verdict(question, record, judge, votes, scores.disagreements)
    known = _leaderboard(judge_name if judge else "none", votes if judge else 0, bootstrap, seed)
    requested = select_metrics(metrics, known, {})
    if not any("cited_fhir_resources" in record for record in records.values()):
        _drop_cited(requested, scores)
    for name, metric in requested.items():
        add_metric(name, metric, _metric_inputs(metric, key, records, verdicts), scores)
    _add_warnings(verdicts, records, bool(judge), scores)
    scores.tables.update(score_tables(_case_groups(key), requested, scores))
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
    reply = None if record is None or record.get("error") else record.get("agent_answer")
    if reply is None or "Input tokens exceeded" in str(reply):
        return Verdict(False, False, False)
    gold = parse_gold_answer(question.true_answer)
    no_answer = not question.resources
    strict = is_correct(question.question, gold, reply, no_answer=no_answer, strict=True)
    official = is_correct(question.question, gold, reply, no_answer=no_answer)
    if official is not None or judge is None:
        return Verdict(bool(official), bool(strict), official is None)
    decided = _ask_judge(question, str(reply), judge, votes, disagreements)
    return Verdict(decided, bool(strict), False)


def _ask_judge(
    question: Question, reply: str, judge: Judge, votes: int, disagreements: list[Any]
) -> bool:
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
    """What the metric tallies of each question: resources against the gold, or the verdict on the answer."""
    if not isinstance(metric, ResourceMetric):
        return verdicts
    name = "agent_fhir_resources" if metric.ids == "retrieved" else "cited_fhir_resources"
    retrievals = {}
    for question_id, question in key.items():
        record = records.get(question_id)
        predicted: ResourceIds | None = None if record is None else record.get(name) or {}
        retrievals[question_id] = Retrieval(question.resources, predicted)
    return retrievals


def _drop_cited(metrics: dict[str, Metric[Any]], scores: Scores) -> None:
    for name in [name for name in metrics if "cited_" in name]:
        del metrics[name]
        scores.missing[name] = (
            "needs cited_fhir_resources in the records: the ids that each answer rests on."
        )


def _add_warnings(
    verdicts: Mapping[str, Verdict], records: Mapping[str, Record], judged: bool, scores: Scores
) -> None:
    undecided = sum(verdict.open for verdict in verdicts.values())
    if undecided:
        scores.warnings.append(
            f"{undecided} replies only a judge could decide; without one they count as wrong."
        )
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
        groups[question_id] = {
            "by_resource_type": "{" + ", ".join(sorted(question.resources)) + "}",
            "by_template": question.template or "(no template)",
            "by_answer_kind": question.kind,
            "by_gold_size": sum(map(len, question.resources.values())),
        }
    return groups
