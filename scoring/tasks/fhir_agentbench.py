"""FHIR-AgentBench (Lee et al., ML4H 2025): retrieval of the right resources and correct answers.

Official: glee4810/FHIR-AgentBench at bbb4290. Every score (0 to 1) has two forms. `official` is its
evaluation code: predictions are first filtered to the resource types of the gold, recall is all or
nothing, and a resource listed twice counts twice. `strict` (`strict_*`) is the paper: sets, no
filter, and recall as a share. Retrieval has two id sets: the retrieved resources, and (`cited_*`)
those that the answer cites.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar, Literal, NamedTuple

from ..errors import ScoringError
from ..fhir_answers import DateValue, is_correct, parse_gold_answer
from ..metric import (
    FloatArray,
    Leaderboard,
    Metric,
    PartOfF1,
    RatioMetric,
    Tally,
    part_of_f1,
)
from ..scores import (
    OnMissing,
    Scores,
    Table,
    add_metric,
    check_case_coverage,
    select_metrics,
)

TASK = "fhir-agentbench"
Judge = Callable[[str, str, str], bool]
"""(question, reference, reply) → whether the reply is right."""
Record = Mapping[str, Any]
ResourceIds = Mapping[str, Sequence[str]]
NO_ANSWER = "no answer"
_SIZES = {0: "0", 1: "1", 5: "2-5", 20: "6-20", 100: "21-100"}
"""The largest number of gold resources in a group → the group's label."""


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


class Retrieval(NamedTuple):
    """Gold and predicted resources of one question, as type → ids.

    `predicted` is None if the question was not answered.
    """

    gold: ResourceIds
    predicted: ResourceIds | None


@dataclass(frozen=True, kw_only=True)
class ResourceMetric(Metric[Retrieval]):
    """Precision, recall or F1, 0 to 1.

    Precision and recall are means over the questions where they are defined; F1 is the harmonic
    mean of these means.
    """

    part: ClassVar[PartOfF1]
    form: Literal["official", "strict"] = "official"
    ids: Literal["retrieved", "cited"] = "retrieved"

    @property
    def width(self) -> int:
        """Precision and whether it is defined, recall and whether it is defined."""
        return 4

    def tally(self, case: Retrieval) -> Tally:
        """(precision or 0, 1 if defined, recall or 0, 1 if defined).

        The benchmark leaves a question out of a mean where its score is not defined.
        """
        if case.predicted is None:
            return 0.0, 1.0, 0.0, 1.0
        expected: set[Any] = set()
        retrieved: list[Any] = []
        if self.form == "official":
            for ids in case.gold.values():
                expected.update(ids)
            for resource_type, ids in case.predicted.items():
                if case.gold.get(resource_type):
                    retrieved.extend(ids)
        else:
            expected.update(_references(case.gold))
            retrieved.extend(_references(case.predicted))
        if not expected and not retrieved:
            return 1.0, 1.0, 1.0, 1.0
        if not expected:
            return 0.0, 1.0, 0.0, 0.0
        if not retrieved:
            return 0.0, 0.0, 0.0, 1.0
        hits = sum(resource in expected for resource in retrieved)
        precision = hits / len(retrieved)
        if self.form == "official":
            recall = float(expected.issubset(retrieved))
        else:
            recall = hits / len(expected)
        return precision, 1.0, recall, 1.0

    def value(self, total: FloatArray) -> FloatArray:
        """The score from summed tallies, 0 to 1."""
        return part_of_f1(total, self.part)


class ResourcePrecision(ResourceMetric):
    """The share of predicted resources that are in the gold."""

    name = "resource_precision"
    part = "precision"


class ResourceRecall(ResourceMetric):
    """Whether all the gold was retrieved (official), or the share that was (strict)."""

    name = "resource_recall"
    part = "recall"


class ResourceF1(ResourceMetric):
    """Harmonic mean of mean precision and mean recall."""

    name = "resource_f1"
    part = "f1"


def _references(resources: ResourceIds) -> set[tuple[str, str]]:
    """The (type, id) pairs of the resources."""
    references = set()
    for resource_type, ids in resources.items():
        for resource_id in ids:
            references.add((resource_type, resource_id))
    return references


class Verdict(NamedTuple):
    """Whether an answer is right, in both forms; `open` if neither rules nor a judge decided."""

    official: bool
    strict: bool
    open: bool


@dataclass(frozen=True, kw_only=True)
class AnswerCorrectness(RatioMetric[Verdict]):
    """The share of questions answered correctly, 0 to 1.

    `judge` names the model that judged the replies that no rule could decide.
    """

    name = "answer_correctness"
    form: Literal["official", "strict"] = "official"
    judge: str = "none"
    votes: int = 1

    def tally(self, case: Verdict) -> Tally:
        """(1 if right, 1)."""
        is_right = case.official if self.form == "official" else case.strict
        return float(is_right), 1.0


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
        verdicts[question_id] = _verdict(
            question, record, judge, votes, scores.disagreements
        )
    if judge is None:
        judge_name = "none"
        votes = 0
    leaderboard = leaderboard_metrics(judge_name, votes, bootstrap, seed)
    requested = select_metrics(metrics, leaderboard, {})
    if not any("cited_fhir_resources" in record for record in records.values()):
        reason = "needs cited_fhir_resources in the records: the ids that each answer rests on."
        for name in list(requested):
            if "cited_" in name:
                del requested[name]
                scores.missing[name] = reason
    for name, metric in requested.items():
        inputs = _metric_inputs(metric, key, records, verdicts)
        add_metric(name, metric, inputs, scores)
    undecided = [verdict for verdict in verdicts.values() if verdict.open]
    if undecided:
        problem = f"{len(undecided)} replies only a judge could decide"
        scores.warnings.append(f"{problem}; without one they count as wrong.")
    failed = [record for record in records.values() if record.get("error")]
    if failed:
        scores.warnings.append(
            f"{len(failed)} records ended in an error and count as wrong."
        )
    if scores.disagreements:
        count = len(scores.disagreements)
        scores.warnings.append(f"the judge's votes were split on {count} replies.")
    tables = _score_tables(key, requested, scores)
    scores.tables.update(tables)
    return scores


def leaderboard_metrics(
    judge: str = "none",
    votes: int = 0,
    bs: int = 1000,
    seed: int = 12345,
) -> Leaderboard:
    """The metrics by their names; `judge` names the model that votes on open replies."""
    common: dict[str, Any] = {"bs": bs, "seed": seed}
    metrics: Leaderboard = {}
    for form, ids in product(("official", "strict"), ("retrieved", "cited")):
        prefix = "strict_" if form == "strict" else ""
        if ids == "cited":
            prefix += "cited_"
        settings = {**common, "form": form, "ids": ids}
        metrics[f"{prefix}precision"] = ResourcePrecision(**settings)
        metrics[f"{prefix}recall"] = ResourceRecall(**settings)
        metrics[f"{prefix}f1"] = ResourceF1(**settings)
    metrics["answer_correctness"] = AnswerCorrectness(
        judge=judge, votes=votes, **common
    )
    metrics["strict_answer_correctness"] = AnswerCorrectness(
        form="strict", votes=0, **common
    )
    return metrics


def _read_records(submission: Sequence[Record]) -> dict[str, Record]:
    """Question id → record. Raises ScoringError that lists every malformed record."""
    mistakes = []
    counts: Counter[str] = Counter()
    for index, record in enumerate(submission):
        if isinstance(record, Mapping):
            counts[str(record.get("question_id"))] += 1
        if not isinstance(record, Mapping) or "question_id" not in record:
            mistakes.append(f"record {index}: no question_id")
            continue
        for name in ("agent_fhir_resources", "cited_fhir_resources"):
            if not _are_resources(record.get(name)):
                problem = f"{name} must be {{type: [ids]}}"
                mistakes.append(f"question {record['question_id']}: {problem}")
    for question_id, count in counts.items():
        if count > 1:
            mistakes.append(f"question {question_id}: answered {count} times; keep one")
    if mistakes:
        raise ScoringError.from_mistakes("submission", mistakes)
    return {str(record["question_id"]): record for record in submission}


def _are_resources(value: object) -> bool:
    """Whether a record's resources are {type: [ids]}, or absent."""
    if value is None:
        return True
    if not isinstance(value, Mapping):
        return False
    return all(isinstance(ids, list | tuple) for ids in value.values())


def _verdict(
    question: Question,
    record: Record | None,
    judge: Judge | None,
    votes: int,
    disagreements: list[dict[str, Any]],
) -> Verdict:
    """The verdict on a record; a missing record, an error and a missing reply are wrong.

    The judge votes only where no rule is sure, and the majority of its votes counts; a tie is
    wrong. Split votes are added to `disagreements`.
    """
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
    ballots = []
    for _ in range(votes):
        ballots.append(judge(text, question.reference, str(reply)))
    if len(set(ballots)) > 1:
        disagreement = {
            "question_id": question.question_id,
            "reference": question.reference,
            "reply": str(reply),
            "votes": ballots,
        }
        disagreements.append(disagreement)
    has_majority = sum(ballots) * 2 > len(ballots)
    return Verdict(has_majority, bool(strict), False)


def _metric_inputs(
    metric: Metric[Any],
    key: Mapping[str, Question],
    records: Mapping[str, Record],
    verdicts: Mapping[str, Verdict],
) -> Mapping[str, Any]:
    """Question id → the metric's input: gold and predicted resources, or the verdict."""
    if not isinstance(metric, ResourceMetric):
        return verdicts
    name = (
        "agent_fhir_resources" if metric.ids == "retrieved" else "cited_fhir_resources"
    )
    retrievals = {}
    for question_id, question in key.items():
        predicted: ResourceIds | None = None
        if question_id in records:
            predicted = records[question_id].get(name) or {}
        retrievals[question_id] = Retrieval(question.resources, predicted)
    return retrievals


def _score_tables(
    key: Mapping[str, Question],
    metrics: Mapping[str, Metric[Any]],
    scores: Scores,
) -> dict[str, Table]:
    """Table name → group → score name → value, with `questions` in each group.

    The table by resource types is the official one. The table by precision (the paper's Figure 4)
    has only questions whose gold was completely retrieved, to show whether noise hurts the answer.
    """
    if not scores.per_case:
        return {}
    names = ["by_resource_type", "by_template", "by_answer_kind", "by_gold_size"]
    if {"precision", "recall"} <= scores.scores.keys():
        names.append("by_precision")
    tables = {}
    for name in names:
        rows_of: dict[str, list[int]] = {}
        for row, question_id in enumerate(scores.per_case):
            group = _group(name, key[question_id], scores.per_case[question_id])
            if group is not None:
                rows_of.setdefault(group, []).append(row)
        table: Table = {}
        for group, rows in sorted(rows_of.items()):
            values = {"questions": float(len(rows))}
            for metric_name, metric in metrics.items():
                if metric_name in scores.tallies:
                    tallies = scores.tallies[metric_name][rows]
                    values[metric_name] = float(metric.value(tallies.sum(axis=0)))
            table[group] = values
        tables[name] = table
    return tables


def _group(
    table: str,
    question: Question,
    values: Mapping[str, float],
) -> str | None:
    """The group of a question with these scores in a table, None where it is left out."""
    if table == "by_resource_type":
        resource_types = ", ".join(sorted(question.resources))
        return f"{{{resource_types}}}"
    if table == "by_template":
        return question.template or "(no template)"
    if table == "by_answer_kind":
        return question.kind
    if table == "by_gold_size":
        size = sum(map(len, question.resources.values()))
        for limit, label in _SIZES.items():
            if size <= limit:
                return label
        return "over 100"
    if values["recall"] != 1:
        return None
    fifth = min(int(values["precision"] * 5), 4)
    low = fifth / 5
    return f"{low:.1f}-{low + 0.2:.1f}"
