"""FHIR-AgentBench (Lee et al., ML4H 2025): were the right resources retrieved, and is the answer right?

Official: glee4810/FHIR-AgentBench at bbb4290. Every score (0 to 1) comes in two forms: as the published code computes
it, and `strict_*` by the paper's formulas; and for two id sets: those retrieved, and (`cited_*`) those that the
answer rests on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
    submission: Sequence[Mapping[str, Any]],
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
    records = _read(submission)
    key = {question.question_id: question for question in questions}
    warnings = check_case_coverage(list(records), list(key), on_missing)
    scores = Scores(TASK, cases=len(key), warnings=warnings)
    verdicts = {
        one: _verdict(key[one], records.get(one), judge, votes, scores.disagreements) for one in key
    }
    known = _leaderboard(judge_name if judge else "none", votes if judge else 0, bootstrap, seed)
    wanted = select_metrics(metrics, known, {})
    if not any("cited_fhir_resources" in record for record in records.values()):
        _drop_cited(wanted, scores)
    for name, metric in wanted.items():
        add_metric(name, metric, _inputs(metric, key, records, verdicts), scores)
    _warn(verdicts, records, bool(judge), scores)
    return _with_tables(scores, key, wanted)


def _leaderboard(judge: str, votes: int, bs: int, seed: int) -> dict[str, Metric[Any]]:
    common: dict[str, Any] = {"bs": bs, "seed": seed}
    families = {"precision": ResourcePrecision, "recall": ResourceRecall, "f1": ResourceF1}
    metrics: dict[str, Metric[Any]] = {
        f"{strict}{cited}{part}": family(**form, **ids, **common)
        for strict, form in _FORMS.items()
        for cited, ids in _ID_SETS.items()
        for part, family in families.items()
    }
    return metrics | {
        "answer_correctness": AnswerCorrectness(judge=judge, votes=votes, **common),
        "strict_answer_correctness": AnswerCorrectness(form="strict", votes=0, **common),
    }


def _read(submission: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    mistakes = [
        mistake for at, record in enumerate(submission) for mistake in _mistakes(at, record)
    ]
    times = Counter(
        str(record.get("question_id")) for record in submission if isinstance(record, Mapping)
    )
    mistakes += [
        f"question {one}: answered {count} times; keep one"
        for one, count in times.items()
        if count > 1
    ]
    if mistakes:
        raise ScoringError.from_mistakes("submission", mistakes)
    return {str(record["question_id"]): record for record in submission}


def _mistakes(at: int, record: object) -> list[str]:
    if not isinstance(record, Mapping) or "question_id" not in record:
        return [f"record {at}: no question_id"]
    fields = ("agent_fhir_resources", "cited_fhir_resources")
    return [
        f"question {record['question_id']}: {name} must be {{type: [ids]}}"
        for name in fields
        if record.get(name) is not None and not _is_resources(record[name])
    ]


def _is_resources(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(ids, list | tuple) for ids in value.values()
    )


def _verdict(
    question: Question,
    record: Mapping[str, Any] | None,
    judge: Judge | None,
    votes: int,
    disagreements: list[Any],
) -> Verdict:
    reply = None if record is None or record.get("error") else record.get("agent_answer")
    if reply is None or "Input tokens exceeded" in str(reply):
        return Verdict(False, False, False)
    gold = parse_gold_answer(question.true_answer)
    asked = {"no_answer": not question.resources}
    strict = is_correct(question.question, gold, reply, strict=True, **asked)
    official = is_correct(question.question, gold, reply, **asked)
    if official is not None or judge is None:
        return Verdict(bool(official), bool(strict), official is None)
    return Verdict(_judged(question, str(reply), judge, votes, disagreements), bool(strict), False)


def _judged(
    question: Question, reply: str, judge: Judge, votes: int, disagreements: list[Any]
) -> bool:
    ballots = [judge(question.question, question.reference, reply) for _ in range(votes)]
    if len(set(ballots)) > 1:
        row = {
            "question_id": question.question_id,
            "reference": question.reference,
            "reply": reply,
            "votes": ballots,
        }
        disagreements.append(row)
    return sum(ballots) * 2 > len(ballots)


def _inputs(
    metric: Metric[Any],
    key: Mapping[str, Question],
    records: Mapping[str, Mapping[str, Any]],
    verdicts: Mapping[str, Verdict],
) -> Mapping[str, Any]:
    if not isinstance(metric, ResourceMetric):
        return verdicts
    name = "agent_fhir_resources" if metric.ids == "retrieved" else "cited_fhir_resources"
    predicted: dict[str, ResourceIds | None] = {
        one: record.get(name) or {} for one, record in records.items()
    }
    return {one: Retrieval(question.resources, predicted.get(one)) for one, question in key.items()}


def _drop_cited(wanted: dict[str, Metric[Any]], scores: Scores) -> None:
    for name in [name for name in wanted if "cited_" in name]:
        del wanted[name]
        scores.missing[name] = (
            "needs cited_fhir_resources in the records: the ids that each answer rests on."
        )


def _warn(
    verdicts: Mapping[str, Verdict],
    records: Mapping[str, Mapping[str, Any]],
    judged: bool,
    scores: Scores,
) -> None:
    if opened := sum(verdict.open for verdict in verdicts.values()):
        scores.warnings.append(
            f"{opened} replies only a judge could decide; without one they count as wrong."
        )
    if failed := sum(bool(record.get("error")) for record in records.values()):
        scores.warnings.append(f"{failed} records ended in an error and count as wrong.")
    if judged and scores.disagreements:
        scores.warnings.append(
            f"the judge's votes were split on {len(scores.disagreements)} replies."
        )


def _with_tables(
    scores: Scores, key: Mapping[str, Question], wanted: Mapping[str, Metric[Any]]
) -> Scores:
    facts = {
        one: {
            "by_resource_type": "{" + ", ".join(sorted(question.resources)) + "}",
            "by_template": question.template or "(no template)",
            "by_answer_kind": question.kind,
            "by_gold_size": sum(map(len, question.resources.values())),
        }
        for one, question in key.items()
    }
    scores.tables.update(score_tables(facts, wanted, scores))
    return scores
